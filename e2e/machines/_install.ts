import { execFile } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { expect } from 'vitest';
import type { Machine } from '../../hack/machine.ts';
import { ROOT } from '../../hack/paths.ts';

/** Where a machine joins. */
export interface Place {
  kubeconfig: string;
  namespace: string;
  /** URL of the controller, as the machine reaches it */
  address: string;
  /** file with the certificate of its authority, PEM */
  authority: string;
}

/** Types on the machine the line that the plugin prints for one without an agent; returns it. */
export async function installOn(machine: Machine, name: string, place: Place): Promise<string> {
  const { kubeconfig, namespace, address, authority } = place;
  const words = ['provision', name, '--create', '--controller', address, '--ca', authority, '--namespace', namespace];
  const { stdout } = await promisify(execFile)(process.execPath, [join(ROOT, 'bin/kubectl-skerry.cjs'), ...words], {
    env: { ...process.env, KUBECONFIG: kubeconfig },
  });
  const line = /Without an agent on it, as root:\n\n {2}(.*)\n/.exec(stdout)?.[1] ?? '';
  expect(line).toContain('/install.sh) && SKERRY_JOIN=');
  machine.write('root/ca.pem', readFileSync(authority));
  const said = await machine.sh(line);
  expect(said, said.out).toMatchObject({ code: 0 });
  expect(said.out).toContain(`Provisioned as node ${name} of ${address}`);
  return line;
}
