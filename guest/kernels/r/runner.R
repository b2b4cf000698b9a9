# SPDX-License-Identifier: Apache-2.0
# R kernel: runs the code that PID 1 of a sandbox sends, in the global environment
#
# fd 1 and 2 are stdout and stderr as for any program: what the code prints is written at once.
# Requests come on fd 3, events go out on fd 4; docs/adr/0102 has the frames.  PID 1 gives this text
# to R on fd 5: nothing of it is installed in an image.
#
# Interrupts are suspended but while the code runs, so SIGINT never cuts a frame.

if (!requireNamespace("jsonlite", quietly = TRUE)) {
  cat("cay: the r kernel needs the package jsonlite: run `apt-get install r-cran-jsonlite` or",
      "`Rscript -e 'install.packages(\"jsonlite\")'`, or take the image `r`\n", file = stderr())
  quit(save = "no", status = 3)
}

MAX_VALUE <- 4 * 2^20   # bytes of one result; a larger one becomes a file
MAX_RESULTS <- 8 * 2^20 # bytes of all results of a run
MAX_EVENTS <- 9998 # and the error that ends the run, and a note
MAX_TYPES <- 32 # MIME types of a result
MAX_TYPE <- 128 # characters of one
MAX_ERROR <- 16 * 2^10
MAX_TRACEBACK <- 64 * 2^10
MAX_DEPTH <- 24
BINARY <- c("image/png", "image/jpeg", "application/pdf")
EXTENSIONS <- c("image/png" = "png", "image/jpeg" = "jpg", "application/pdf" = "pdf", "image/svg+xml" = "svg", "text/html" = "html")

requests <- file("/dev/fd/3", "rb", raw = TRUE)
events <- file("/dev/fd/4", "wb", raw = TRUE)
pid <- Sys.getpid()
run <- new.env() # of the run that is on
run$on <- FALSE
run$count <- 0
run$files <- 0

# ---- frames

# Text in valid UTF-8, whatever bytes the code put into it.
clean <- function(text) iconv(enc2utf8(as.character(text)), "UTF-8", "UTF-8", sub = "?")

# A value of the runner's own; strings of length one are not arrays.
json <- function(value) jsonlite::toJSON(value, auto_unbox = TRUE, null = "null", na = "null", digits = NA, force = TRUE)
object <- function(...) structure(list(...), names = names(list(...)))

send <- function(kind, text, ask = TRUE) suspendInterrupts({
  if (Sys.getpid() != pid) return(invisible()) # a child that the code forked is not the kernel
  payload <- charToRaw(enc2utf8(text))
  size <- length(payload)
  flush(stdout())
  flush(stderr())
  writeBin(c(as.raw(size %/% 256^(0:3) %% 256), charToRaw(kind), payload), events)
  flush(events)
  while (ask && take()$kind != "A") NULL
})

take <- function() {
  head <- readBin(requests, "raw", 5)
  if (length(head) < 5) quit(save = "no", status = 0)
  size <- sum(as.integer(head[1:4]) * 256^(0:3))
  text <- if (size) rawToChar(readBin(requests, "raw", size)) else ""
  Encoding(text) <- "UTF-8"
  list(kind = rawToChar(head[5]), text = text)
}

event <- function(kind, text, last = FALSE) {
  if (!run$on) return(invisible())
  run$events <- run$events + 1
  if (run$events > MAX_EVENTS && !last) run$dropped <- run$dropped + 1 else send(kind, text)
}

shortened <- function(text, limit) {
  text <- paste(clean(text), collapse = "\n")
  size <- nchar(text, "bytes")
  if (size <= limit) return(text)
  data <- charToRaw(text)
  part <- function(from, to) clean(rawToChar(data[from:to]))
  start <- limit * 2 %/% 3
  end <- limit %/% 4
  sprintf("%s\n… %d bytes left out …\n%s", part(1, start), size - start - end, part(size - end, size))
}

# ---- results

depth <- function(value, n = 0) {
  if (!is.list(value) || n > MAX_DEPTH) n else max(n, vapply(value, depth, 0, n = n + 1))
}

# One value of a bundle as a JSON string, of JSON text for JSON types, NULL when it is too deep; and what a file of it holds.
prepare <- function(mime, value) {
  if (mime %in% BINARY) {
    if (is.raw(value)) value <- jsonlite::base64_enc(value)
    value <- gsub("\\s", "", value)
    return(list(json = json(value), content = function() jsonlite::base64_dec(value)))
  }
  if (grepl("json$", mime)) {
    text <- if (inherits(value, "json")) value else json(value)
    return(list(json = if (depth(value) <= MAX_DEPTH) json(as.character(text)), content = function() charToRaw(text)))
  }
  text <- paste(clean(value), collapse = "\n")
  list(json = json(text), content = function() charToRaw(text))
}

save_value <- function(mime, content) {
  told <- list(mime = mime, bytes = length(content), path = "")
  try(silent = TRUE, {
    folder <- file.path(Sys.getenv("TMPDIR", "/tmp"), "cay-results")
    dir.create(folder, showWarnings = FALSE, mode = "0700")
    run$files <- run$files + 1
    ending <- if (mime %in% names(EXTENSIONS)) EXTENSIONS[[mime]] else if (grepl("json$", mime)) "json" else "txt"
    path <- file.path(folder, sprintf("%d-%d.%s", pid, run$files, ending))
    writeBin(content, path)
    told$path <- path
  })
  told
}

show_data <- function(main, data) {
  if (!run$on || run$silent || !length(data)) return(invisible())
  told <- character()
  cut <- list()
  size <- 0
  types <- names(data)[order(names(data) != "text/plain")]
  for (mime in utils::head(types[nchar(types) <= MAX_TYPE], MAX_TYPES)) {
    made <- prepare(mime, data[[mime]])
    bytes <- if (is.null(made$json)) Inf else nchar(made$json, "bytes")
    if (size + bytes > MAX_VALUE || run$bytes + size + bytes > MAX_RESULTS) {
      cut <- c(cut, list(save_value(mime, made$content())))
    } else {
      told <- c(told, paste0(json(mime), ":", made$json))
      size <- size + bytes
    }
  }
  run$bytes <- run$bytes + size
  rest <- paste0('{"main":', if (main) "true" else "false", if (length(cut)) paste0(',"cut":', json(cut)))
  event("R", paste0(rest, ',"data":{', paste(told, collapse = ","), "}}"))
}

escaped <- function(text) {
  for (pair in list(c("&", "&amp;"), c("<", "&lt;"), c(">", "&gt;"), c('"', "&quot;"))) text <- gsub(pair[1], pair[2], text, fixed = TRUE)
  text
}

# The first 60 rows and 20 columns of a data.frame, as IRkernel shows them.
table_html <- function(value) {
  rows <- utils::head(seq_len(nrow(value)), 60)
  value <- as.data.frame(value)[rows, utils::head(seq_along(value), 20), drop = FALSE]
  cells <- vapply(value, function(column) escaped(trimws(format(column))), character(length(rows)))
  cells <- matrix(cells, nrow = length(rows))
  line <- function(tag, words) paste0("<tr>", paste0("<", tag, ">", words, "</", tag, ">", collapse = ""), "</tr>")
  body <- vapply(seq_along(rows), function(i) line("td", c(escaped(rownames(value)[i]), cells[i, ])), "")
  paste(c("<table>", "<thead>", line("th", c("", escaped(names(value)))), "</thead>", "<tbody>", body, "</tbody>", "</table>"), collapse = "\n")
}

columns <- function(value) lapply(as.list(as.data.frame(value)), function(column) I(if (is.numeric(column) || is.logical(column)) column else as.character(column)))

# What print shows is the text; a value that draws instead (ggplot) has none, and its plot is told later.
bundle <- function(value) {
  text <- paste(utils::capture.output(if (isS4(value)) methods::show(value) else print(value)), collapse = "\n")
  data <- if (nzchar(text)) list("text/plain" = text) else list()
  if (is.data.frame(value)) {
    try(silent = TRUE, data <- c(data, list("text/html" = table_html(value), "application/vnd.cay.data+json" = columns(value))))
  } else if (inherits(value, c("shiny.tag", "shiny.tag.list", "html"))) {
    data[["text/html"]] <- paste(as.character(value), collapse = "\n")
  }
  data
}

display <- function(value) {
  is_bundle <- is.list(value) && length(value) && !is.null(names(value)) && all(grepl("^[[:alnum:].+-]+/[[:alnum:].+-]+$", names(value)))
  show_data(FALSE, if (is_bundle) value else bundle(value))
}

# ---- plots: a device opens when the code draws, its pages are pictures

open_device <- function(...) {
  run$folder <- tempfile("plots-")
  dir.create(run$folder)
  grDevices::png(file.path(run$folder, "%05d.png"), width = 800, height = 600, res = 100, type = "cairo")
  run$device <- grDevices::dev.cur()
}

# Pages that are complete; all of them once the device is closed, which the end of the run does.
show_plots <- function(last) {
  if (is.null(run$folder)) return(invisible())
  if (last && run$device %in% grDevices::dev.list() && names(run$device) == names(grDevices::dev.list())[grDevices::dev.list() == run$device]) grDevices::dev.off(run$device)
  pages <- list.files(run$folder, full.names = TRUE)
  if (!last) pages <- utils::head(pages, -1)
  for (page in pages) {
    picture <- readBin(page, "raw", file.size(page))
    unlink(page)
    if (length(picture)) show_data(FALSE, list("text/plain" = "plot", "image/png" = picture))
  }
  if (last) {
    unlink(run$folder, recursive = TRUE)
    run$folder <- run$device <- NULL
  }
}

# ---- errors

name_of <- function(error) sub("^simpleError$", "Error", class(error)[1])

tell_error <- function(name, value, calls) {
  run$failed <- TRUE
  lines <- vapply(calls, function(call) paste(utils::head(deparse(call, nlines = 2), 2), collapse = " "), "")
  if (length(lines)) lines <- c("Traceback:", sprintf("%d. %s", seq_along(lines), lines))
  lines <- strsplit(shortened(c(if (nzchar(value)) paste0(name, ": ", value) else name, lines), MAX_TRACEBACK), "\n", fixed = TRUE)[[1]]
  event("E", json(object(name = shortened(name, 256), value = shortened(value, MAX_ERROR), traceback = I(lines))), last = TRUE)
}

on_warning <- function(condition) {
  level <- getOption("warn")
  if (is.numeric(level) && level >= 2) return(invisible()) # R makes it an error
  if (!is.numeric(level) || level >= 0) {
    call <- conditionCall(condition)
    where <- if (is.null(call) || identical(call, OWN_CALL)) "" else paste0("In ", paste(utils::head(deparse(call, nlines = 1), 1)), " : ")
    cat("Warning message:\n", where, conditionMessage(condition), "\n", sep = "", file = stderr())
  }
  tryInvokeRestart("muffleWarning")
}

# ---- runs

OWN_CALL <- quote(eval(expr = expression, envir = globalenv())) # what the code's own calls are below

run_code <- function(code) {
  calls <- list()
  on_error <- function(condition) {
    all <- sys.calls()
    start <- Position(function(call) identical(call, OWN_CALL), all)
    calls <<- if (is.na(start)) list() else utils::head(utils::tail(all, -start - 1), -2)
  }
  tryCatch(
    withCallingHandlers(allowInterrupts({
      expressions <- parse(text = code, keep.source = TRUE)
      for (i in seq_along(expressions)) {
        expression <- expressions[[i]]
        got <- withVisible(eval(expr = expression, envir = globalenv()))
        if (got$visible && !run$silent) show_data(i == length(expressions), bundle(got$value))
        show_plots(last = FALSE)
      }
    }), error = on_error, warning = on_warning),
    error = function(e) tell_error(name_of(e), conditionMessage(e), calls),
    interrupt = function(e) tell_error("KeyboardInterrupt", "", list()))
}

run_cell <- function(request) {
  run$on <- TRUE
  run$silent <- isTRUE(request$silent)
  run$failed <- FALSE
  run$events <- run$dropped <- run$bytes <- 0
  tryCatch(allowInterrupts(for (i in 1:3000) i), interrupt = function(e) NULL) # one that came before this run
  if (!run$silent) run$count <- run$count + 1
  send("C", json(object(execution_count = if (run$silent) 0 else run$count)), ask = FALSE)
  wanted <- as.list(request$env)
  before <- Sys.getenv(names(wanted), unset = NA, names = TRUE)
  if (length(wanted)) do.call(Sys.setenv, wanted)
  tryCatch(if (!is.null(request$cwd)) setwd(request$cwd), error = function(e) tell_error(name_of(e), conditionMessage(e), list()))
  if (!run$failed) run_code(request$code)
  tryCatch(show_plots(last = TRUE), error = function(e) tell_error(name_of(e), conditionMessage(e), list()))
  while (sink.number() > 0) sink() # the next run prints where this one did
  for (name in names(wanted)) if (is.na(before[[name]])) Sys.unsetenv(name) else do.call(Sys.setenv, as.list(before[name]))
  run$on <- FALSE
  if (run$dropped) send("R", json(list(main = FALSE, data = list("text/plain" = sprintf("… %d results more were dropped", run$dropped)))))
  send("D", json(object(status = if (run$failed) "error" else "ok", cwd = tryCatch(getwd(), error = function(e) ""))), ask = FALSE)
}

options(device = open_device, crayon.enabled = FALSE, cli.num_colors = 1L, keep.source = TRUE,
        jupyter.base_display_func = function(data, metadata = NULL) show_data(FALSE, data),
        jupyter.clear_output_func = function(wait = TRUE) if (run$on && !run$silent) event("U", json(object(wait = isTRUE(wait)))))
attach(list(display = display), name = "cay:kernel", warn.conflicts = FALSE)

suspendInterrupts({
  version <- paste(R.version$major, R.version$minor, sep = ".")
  send("H", json(object(version = version, implementation = paste("R", version))), ask = FALSE)
  repeat {
    request <- take()
    if (request$kind == "X") run_cell(jsonlite::fromJSON(request$text, simplifyVector = FALSE))
  }
})
