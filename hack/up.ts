import { relative } from 'node:path';
import { DEX_USERS } from './dex.ts';
import { startClock } from './progress.ts';
import { STACK_FOLDER } from './stack/files.ts';
import { logsIn } from './stack/refusal.ts';
import { type Stack, StackRefused, startStack } from './stack/stack.ts';

/** `make up`: the local stack in the foreground. Environment: BUS_ENABLED, ONCE, PROVIDER, ROUTER, ROUTERS_ENABLED, SAMPLE, SKERRY_PORT, SKERRY_SAMPLE_PORT, SKERRY_STACK, TLS. */
async function main(): Promise<number> {
  const log = startClock();
  const once = process.env.ONCE === '1';
  const sample = process.env.SAMPLE !== '0';
  const tls = process.env.TLS === '1';
  const provider = process.env.PROVIDER;
  if (provider && provider !== 'dex') {
    log(`PROVIDER is ${provider}; there is dex`);
    return 2;
  }
  const port = process.env.SKERRY_PORT ? Number(process.env.SKERRY_PORT) : undefined;
  if (port !== undefined && !(Number.isInteger(port) && port > 0 && port < 65536)) {
    log(`SKERRY_PORT is ${process.env.SKERRY_PORT}, which is no port`);
    return 2;
  }

  const stop = new AbortController();
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) {
    process.on(signal, () => {
      // The children die with this process, so the second signal ends everything at once.
      if (stop.signal.aborted) process.exit(130);
      log('Stopping; once more ends everything at once');
      stop.abort();
    });
  }

  try {
    await using stack = await startStack({
      ...{ dir: STACK_FOLDER, port, sample, tls, hasDex: provider === 'dex', log, signal: stop.signal },
    });
    process.stdout.write(summary(stack, once));
    if (!once)
      await Promise.race([stack.broken, new Promise((resolve) => stop.signal.addEventListener('abort', resolve))]);
    return 0;
  } catch (error) {
    if (stop.signal.aborted) return 130;
    explain(reasonOf(error));
    return 1;
  }
}

/** The reason of the end, rather than later errors while everything was stopped. */
function reasonOf(error: unknown): Error {
  return error instanceof SuppressedError ? reasonOf(error.suppressed) : (error as Error);
}

function explain(error: Error): void {
  process.stderr.write(`\n${error.message}\n`);
  if (!(error instanceof StackRefused)) process.stderr.write(logsIn(STACK_FOLDER));
}

/** The addresses of what runs, and what to try next. */
function summary(stack: Stack, once: boolean): string {
  const { rest, ca, provider, apiserver, agent, registry, engine, sample, metrics, node } = stack.urls;
  const user = provider ? `${DEX_USERS.ann.email} < .skerry/dex/password` : 'admin < .skerry/admin';
  const person = `${ca ? '--ca $CA ' : ''}--user ${user}`;
  const rows: [string, string, string][] = [
    ['REST', rest, `bearer token in .skerry/token${provider ? '' : '; password of admin in .skerry/admin'}`],
    ...(provider ? [['Provider', provider, 'passwords in .skerry/dex/password'] as [string, string, string]] : []),
    ['API server', apiserver, 'kubeconfig in .skerry/kubeconfig'],
    ['Agent', agent, `node "${node}"`],
    ['Engine', engine.url, engine.kind],
    ['Registry', registry, ''],
    ['Metrics', metrics, ''],
    ...(sample ? [['Sample', sample, `answers "${stack.sampleAnswer}"`] as [string, string, string]] : []),
  ];
  const width = Math.max(...rows.map(([, url]) => url.length));
  const table = rows.map(([name, url, note]) => `  ${name.padEnd(12)}${url.padEnd(width + 2)}${note}`.trimEnd());
  const env = relative(process.cwd(), stack.env);
  const next = [
    `. ${env.startsWith('/') || env.startsWith('.') ? env : `./${env}`}`,
    'kubectl get skerry',
    ...(sample ? ['kubectl get application hello -o yaml', 'kubectl skerry logs hello', `curl ${sample}`] : []),
    'curl -H "Authorization: Bearer $TOKEN" $URL/api/v3/node-list',
    ...(ca || provider ? [`kubectl skerry login ${person}`, 'kubectl --context skerry auth whoami'] : []),
  ];
  const lines = ['', 'What runs:', ...table];
  if (!once)
    lines.push('', 'What to try next:', ...next.map((line) => `  ${line}`), '', 'Ctrl-C stops it and keeps the data.');
  return `${lines.join('\n')}\n`;
}

process.exitCode = await main();
