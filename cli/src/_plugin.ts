import { Readable, Writable } from 'node:stream';
import { stripVTControlCharacters } from 'node:util';
import type { KubeClient } from '../../src/kube/mod.ts';
import type { Cluster, ClusterFlags } from './context/cluster.ts';
import { runPlugin } from './plugin.ts';

export interface Ran {
  code: number;
  out: string;
  err: string;
}

interface Options {
  colours?: boolean;
  now?(): number;
  signal?: AbortSignal;
  env?: NodeJS.ProcessEnv;
  connected?(flags: ClusterFlags): void;
  /** the standard input, which is no terminal */
  input?: string;
  /** gets each part of the output, errors included, as it is written */
  wrote?(text: string): void;
}

/** Runs command lines of the plugin against a client. */
export const createPlugin = (client: KubeClient, namespace: string, { connected, ...options }: Options = {}) =>
  pluginWith((flags) => {
    connected?.(flags);
    const openPort = (pod: string) => Promise.reject(new Error(`no port of ${pod} is forwarded here`));
    return { client, namespace, openPort, [Symbol.asyncDispose]: async () => {} };
  }, options);

/** Runs command lines of the plugin, which connects to a cluster as it is given. */
export function pluginWith(
  connect: (flags: ClusterFlags) => Cluster,
  {
    colours = false,
    now = Date.now,
    signal = new AbortController().signal,
    env = {},
    input,
    wrote = () => {},
  }: Omit<Options, 'connected'> = {},
) {
  return async (...args: string[]): Promise<Ran> => {
    let [out, err] = ['', ''];
    const code = await runPlugin(args, {
      out: (text) => {
        out += text;
        wrote(text);
      },
      err: (text) => {
        err += text;
        wrote(text);
      },
      streams: {
        input: Readable.from(input === undefined ? [] : [Buffer.from(input)], { objectMode: false }),
        output: collect((text) => {
          out += text;
        }),
        errors: collect((text) => {
          err += text;
        }),
      },
      colours,
      env,
      connect,
      now,
      signal,
    });
    return { code, out: colours ? out : stripVTControlCharacters(out), err };
  };
}

const collect = (add: (text: string) => void) =>
  new Writable({
    write(chunk, _, done) {
      add(String(chunk));
      done();
    },
  });
