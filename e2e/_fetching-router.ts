import { fetchConfig, follow, say } from './_local-api.ts';

/**
 * What an image of v3 does in the place of a router's program: it ignores its arguments, fetches its configuration from the local API of
 * its agent by the files of its service account, and fetches it again at each signal of the control channel. It prints all of it as lines of JSON.
 */
const CONFIG_CHANGED = 0xc;

process.on('SIGTERM', () => process.exit(0));
follow((message) => {
  say({ signal: message[0] });
  if (message[0] === CONFIG_CHANGED) fetchConfig();
});
