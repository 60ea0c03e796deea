'use strict';
/*
 * The first lines of each program, in JavaScript that any Node since 12 reads: the programs themselves are TypeScript
 * with `using`, on node:sqlite, of which an older Node only says that it does not know the file extension.
 */

/** The first Node that runs the sources as they are. */
var NEEDED = 24;

/** Ends the process, with the way out, where this Node is too old for a program. */
exports.demand = function (program) {
  var version = process.versions.node;
  if (parseInt(version, 10) >= NEEDED) return;
  process.stderr.write(
    'Error: ' + program + ' needs Node ' + NEEDED + ' or newer, and this is Node ' + version + ' (' + process.execPath + ').\n' +
      'The repository brings one along: npm ci, then node_modules/.bin/node bin/' + program + '.cjs\n'
  );
  process.exit(1);
};
