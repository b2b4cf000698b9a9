// SPDX-License-Identifier: Apache-2.0
// kernel.install runs this with npm's arguments: install, options, then packages, each with @version
'use strict';
const { spawnSync } = require('child_process');

const args = process.argv.slice(1);
const done = spawnSync('npm', args, { stdio: 'inherit' });
process.exitCode = done.status ?? 1;
if (done.error)
	console.error(`cay: npm cannot be started: ${done.error.message}`);
if (done.status === 0) {
	const names = args.slice(1).filter(a => !a.startsWith('-')).map(a => a.slice(0, a.lastIndexOf('@')));
	const list = spawnSync('npm', ['ls', '--json', '--depth=0', ...names], { encoding: 'utf8', maxBuffer: 16 << 20 });
	let found = {};
	try {
		found = JSON.parse(list.stdout).dependencies ?? {};
	} catch {
		// the packages are installed; only their versions are not known
	}
	for (const name of names)
		if (found[name]?.version)
			console.log(`cay: installed ${name} ${found[name].version}`);
}
