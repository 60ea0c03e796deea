import type { Logger } from 'pino';
import { type AppOverrides, createApp } from '../src/app.ts';
import { silentLog } from '../src/lib/log.ts';
import { testConfig } from '../testing/test-config.ts';
import { type ControllerProcess, type Stack, until } from './_stack.ts';

/** A controller in the process of the test. */
export interface ControllerHere extends AsyncDisposable {
  /** what a stack asks a controller for: its URL alone */
  controller: ControllerProcess;
  /** of its REST API */
  port: number;
}

/** Starts a controller of a stack with these settings in this process, without a process of its own to wait for; its caller disposes of it. */
export async function startControllerHere(
  { controllerKubeconfig, namespace }: Stack,
  env: Record<string, string> = {},
  overrides: AppOverrides = {},
): Promise<ControllerHere> {
  const config = testConfig(controllerKubeconfig, namespace, env);
  await using started = new AsyncDisposableStack();
  const app = started.use(await createApp(config, { log: silentLog as unknown as Logger }, overrides));
  await app.start();
  const port = app.addresses.rest as number;
  const url = `http://127.0.0.1:${port}`;
  await until('the controller to be ready', async () => (await fetch(`${url}/api/v3/status`)).ok);
  const owned = started.move();
  return { controller: { url } as ControllerProcess, port, [Symbol.asyncDispose]: () => owned.disposeAsync() };
}
