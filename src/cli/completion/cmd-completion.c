/* SPDX-License-Identifier: Apache-2.0 */
#include <signal.h>
#include <sys/time.h>

#include "cli/completion/complete.h"
#include "cli/print/print.h"

#define INIT_CALL_MS 300

/* The scripts call `cay completion words`, so they do not change with commands and options.
 * bash splits words at ':' and '='; its script undoes that. */
static const char completion_script_bash[] =
	"# cay completion bash; load it with: source <(cay completion bash)\n"
	"_cay() {\n"
	"\tlocal cur line lead words=()\n"
	"\tread -ra words <<<\"${COMP_LINE:0:COMP_POINT}\"\n"
	"\t[[ ${COMP_LINE:0:COMP_POINT} == *[[:space:]] ]] && words+=('')\n"
	"\tcur=${words[-1]}\n"
	"\tlead=${cur%\"${cur##*[:=]}\"}\n"
	"\tCOMPREPLY=()\n"
	"\twhile IFS= read -r line; do\n"
	"\t\tif [[ $line == :files ]]; then\n"
	"\t\t\twhile IFS= read -r line; do\n"
	"\t\t\t\t[[ -d $line ]] && line+=/\n"
	"\t\t\t\tprintf -v line %q \"$line\"\n"
	"\t\t\t\tCOMPREPLY+=(\"$line\")\n"
	"\t\t\tdone < <(compgen -f -- \"${cur#\"$lead\"}\")\n"
	"\t\telse\n"
	"\t\t\tline=${line%%$'\\t'*}\n"
	"\t\t\tCOMPREPLY+=(\"${line#\"$lead\"}\")\n"
	"\t\tfi\n"
	"\tdone < <(\"${words[0]}\" completion words -- \"${words[@]:1}\" 2>/dev/null)\n"
	"\t[[ ${#COMPREPLY[@]} -eq 1 && ${COMPREPLY[0]} == *[:/] ]] && compopt -o nospace\n"
	"\treturn 0\n"
	"}\n"
	"complete -F _cay cay\n";

static const char completion_script_zsh[] =
	"#compdef cay\n"
	"# cay completion zsh; a file _cay in $fpath, or: source <(cay completion zsh)\n"
	"_cay() {\n"
	"\tlocal line word files=no\n"
	"\tlocal -a found shown open opened\n"
	"\twhile IFS= read -r line; do\n"
	"\t\tword=${line%%$'\\t'*}\n"
	"\t\tif [[ $line == :files ]]; then\n"
	"\t\t\tfiles=yes\n"
	"\t\telif [[ $word == *: ]]; then\n"
	"\t\t\topen+=(\"$word\") opened+=(\"${line/$'\\t'/  -- }\")\n"
	"\t\telse\n"
	"\t\t\tfound+=(\"$word\") shown+=(\"${line/$'\\t'/  -- }\")\n"
	"\t\tfi\n"
	"\tdone < <(\"${words[1]}\" completion words -- \"${(@)words[2,CURRENT]}\" 2>/dev/null)\n"
	"\t(( $#found )) && compadd -l -d shown -a found\n"
	"\t(( $#open )) && compadd -l -S '' -d opened -a open\n"
	"\t[[ $files == yes ]] && _files\n"
	"\treturn 0\n"
	"}\n"
	"if [[ $zsh_eval_context[-1] == loadautofunc ]]; then\n"
	"\t_cay \"$@\"\n"
	"else\n"
	"\tcompdef _cay cay\n"
	"fi\n";

static const char completion_script_fish[] =
	"# cay completion fish; load it with: cay completion fish | source\n"
	"function __cay_complete\n"
	"\tset -l words (commandline -opc) (commandline -ct)\n"
	"\tfor line in ($words[1] completion words -- $words[2..] 2>/dev/null)\n"
	"\t\tif test \"$line\" = ':files'\n"
	"\t\t\t__fish_complete_path (commandline -ct)\n"
	"\t\telse\n"
	"\t\t\techo $line\n"
	"\t\tend\n"
	"\tend\n"
	"end\n"
	"complete -c cay -f -a '(__cay_complete)'\n";

static const struct {
	const char *name, *script;
} completion_scripts[] = { { "bash", completion_script_bash },
			   { "zsh", completion_script_zsh },
			   { "fish", completion_script_fish } };

static void on_completion_timeout(int)
{
	_exit(0);
}

/* Exit after INIT_CALL_MS however slow the server is: the user waits at the prompt. */
static int completion_start_timeout(struct cay_err *err)
{
	struct itimerval late = { .it_value = { .tv_usec = INIT_CALL_MS * 1000L } };

	if (signal(SIGALRM, on_completion_timeout) == SIG_ERR ||
	    setitimer(ITIMER_REAL, &late, NULL) < 0)
		return cay_fail_sys(err, CAY_E_INTERNAL, errno, "set a timer");
	return 0;
}

static int cmd_completion_print_words(struct cli *c, const struct opt_words *w, struct cay_err *err)
{
	auto_buf known = BUF_INIT(MIB(1)), told = BUF_INIT(MIB(1));
	static const char *const nothing[] = { "" };
	struct complete what;
	int r;

	complete_parse(w->n_rest ? w->rest : nothing, w->n_rest ? w->n_rest : 1, &what);
	r = complete_from_tables(&what, &known);
	if (r < 0)
		return cay_no_memory(err);
	for (size_t i = 0;
	     r >= 0 && what.operand == OPERAND_SHELL && i < ARRAY_SIZE(completion_scripts); i++)
		r = complete_add_word(&what, completion_scripts[i].name, "", &known);
	if (r >= 0)
		r = print_stdout(&known, err);
	if (r >= 0)
		r = completion_start_timeout(err);
	/* without a server there are no names */
	if (r < 0 || complete_from_server(c, &what, &told) < 0)
		return r;
	return print_stdout(&told, err);
}

static int cmd_completion_run(struct cli *c, const struct opt_words *w, struct cay_err *err)
{
	const char *shell = w->operands[0];

	if (str_eq(shell, "words"))
		return cmd_completion_print_words(c, w, err);
	for (size_t i = 0; i < ARRAY_SIZE(completion_scripts); i++) {
		auto_buf out = BUF_INIT(KIB(8));

		if (!str_eq(shell, completion_scripts[i].name))
			continue;
		if (buf_puts(&out, completion_scripts[i].script) < 0)
			return cay_no_memory(err);
		return print_stdout(&out, err);
	}
	api_hint_set(&c->api, "use bash, zsh or fish");
	return cay_fail(err, CAY_E_INVALID, "completion: unsupported shell '%s'", shell);
}

const struct cmd cmd_completion = {
	CMD_USAGE("completion", "bash|zsh|fish"),
	.needs = CMD_NEEDS_NOTHING,
	CMD_OPERANDS(1, 1, OPERAND_SHELL),
	.rest = REST_OPTIONAL,
	.no_json = true,
	.help = "Print a completion script for a shell",
	.more = "Add 'source <(cay completion bash)' to ~/.bashrc, 'source <(cay completion zsh)' "
		"after compinit to ~/.zshrc, or 'cay completion fish | source' to config.fish. "
		"Names come from the server if it responds within 300 ms. The scripts call 'cay "
		"completion words -- WORD...', which prints the completions of the last word.",
	.run = cmd_completion_run,
};
