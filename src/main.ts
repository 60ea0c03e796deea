#!/usr/bin/env node
import './lib/web-socket/masks.ts';
import { createApp } from './app.ts';
import { environmentHelp, readConfig } from './config.ts';
import { connect } from './connection.ts';
import { applyCrds } from './crds.ts';
import { removeFinalizers } from './finalizers.ts';
import { ConfigError } from './settings/values.ts';
import { KINDS } from './subjects/kinds.ts';
import { supportDocument } from './support.ts';
import { createLog } from './telemetry/log.ts';

const HELP = `skerry - the controller: REST, agent routes and reconcilers

Usage:
  skerry                   Run the controller until SIGTERM or Ctrl-C
  skerry apply-crds        Bring the CRDs of the cluster to those of this version; removes none
  skerry remove-finalizers Free the objects of the namespace from finalizers, after the controller was uninstalled
  skerry support-bundle    Print what helps to understand a running controller, as JSON, without secrets
  skerry --help

Settings are environment variables:
${environmentHelp()
  .map(([name, text]) => `  ${name.padEnd(26)} ${text}`)
  .join('\n')}
`;

/** Time limit of active requests after a signal; Kubernetes kills the process after 30 s. */
const GRACE_MS = 20_000;

async function main(): Promise<void> {
  if (process.argv.includes('--help') || process.argv.includes('-h')) {
    process.stdout.write(HELP);
    return;
  }
  const config = readConfig(process.env);
  const [command] = process.argv.slice(2);
  if (command === 'support-bundle') {
    await using client = connect(config);
    process.stdout.write(`${JSON.stringify(await supportDocument(config, client), undefined, 2)}\n`);
    return;
  }
  if (command === 'apply-crds') {
    await using client = connect(config);
    const outcomes = await applyCrds(client, KINDS);
    process.stdout.write([...outcomes].map(([name, outcome]) => `${name}: ${outcome}\n`).join(''));
    return;
  }
  if (command === 'remove-finalizers') {
    await using client = connect(config);
    const counts = await removeFinalizers(client, KINDS, { namespace: config.namespace });
    process.stdout.write([...counts].map(([name, count]) => `${name}: ${count} freed\n`).join(''));
    return;
  }
  if (command !== undefined) throw new ConfigError(`there is no command "${command}"; see: skerry --help`);
  const log = createLog({ level: config.logLevel, name: 'skerry' });
  for (const warning of config.warnings) log.warn({}, warning);
  const stop = new AbortController();
  for (const signal of ['SIGINT', 'SIGTERM'] as const) {
    process.once(signal, () => {
      log.info({ signal }, 'Stopping');
      stop.abort();
      setTimeout(() => process.exit(1), GRACE_MS + 5_000).unref();
    });
  }
  await using app = await createApp(config, { log, process });
  await app.start();
  const { namespace, installation, controlPlane } = config;
  log.info({ ...app.addresses, namespace, installation: installation.name, controlPlane }, 'Controller listens');
  await new Promise<void>((resolve) => stop.signal.addEventListener('abort', () => resolve(), { once: true }));
  await app.drain(GRACE_MS);
}

main().catch((error: unknown) => {
  process.stderr.write(`${error instanceof ConfigError ? error.message : ((error as Error).stack ?? String(error))}\n`);
  process.exitCode = 1;
});
