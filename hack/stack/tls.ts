import { execFile, spawnSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { getCACertificates, setDefaultCACertificates } from 'node:tls';
import { promisify } from 'node:util';
import { CONTROLLER_CERTIFICATE, DEFAULT_NAMESPACE } from '../../src/api/names.ts';
import type { Kube, KubeObject } from '../kube.ts';
import { ROOT } from '../paths.ts';
import { waitFor } from '../wait.ts';
import { writeAtomically } from './files.ts';

/** TLS=1: the controller makes its own certificate. */
export const TLS_SETTINGS: Readonly<Record<string, string>> = { SKERRY_TLS_HOSTS: '127.0.0.1,localhost' };

interface SecretObject extends KubeObject {
  data?: Record<string, string>;
}

const authenticationFile = (dir: string) => join(dir, 'authentication.yaml');
const authorityFile = (dir: string) => join(dir, 'ca.crt');

/**
 * Flags by which an API server reads who may log in from a file. It follows the file: until the controller runs for the first time, the
 * file names nobody.
 */
export function authenticationFlags(dir: string, apiServer: string): string[] {
  const file = authenticationFile(dir);
  const apiVersion = `apiserver.config.k8s.io/${configurationVersion(apiServer)}`;
  if (!existsSync(file))
    writeAtomically(file, `${JSON.stringify({ apiVersion, kind: 'AuthenticationConfiguration', jwt: [] })}\n`);
  return ['--authentication-config', file];
}

/** Makes this process and the agent trust the certificate of the controller. Returns the file of its authority. */
export async function trustController(
  kube: Kube,
  { dir, signal }: { dir: string; signal?: AbortSignal | undefined },
): Promise<string> {
  const path = `/api/v1/namespaces/${DEFAULT_NAMESPACE}/secrets/${CONTROLLER_CERTIFICATE}`;
  const authorities = async () => (await kube.get<SecretObject>(path))?.data?.['ca.crt'];
  const encoded = await waitFor(authorities, { what: 'the controller to make its certificate', signal });
  const [ca, text] = [authorityFile(dir), Buffer.from(encoded, 'base64').toString()];
  writeAtomically(ca, text);
  setDefaultCACertificates([...getCACertificates('default'), text]);
  return ca;
}

/** Lets the API server accept the logins of an issuer: with the arguments of `kubectl skerry authentication-config`. */
export async function trustIssuer(dir: string, apiServer: string, args: readonly string[]): Promise<void> {
  const plugin = join(ROOT, 'bin/kubectl-skerry.cjs');
  const command = [plugin, 'authentication-config', ...args, '--api-version', configurationVersion(apiServer)];
  writeAtomically(authenticationFile(dir), (await promisify(execFile)(process.execPath, command)).stdout);
}

/** The version of the configuration that a kube-apiserver reads. */
function configurationVersion(apiServer: string): 'v1' | 'v1beta1' {
  const { stdout } = spawnSync(apiServer, ['--version'], { encoding: 'utf8' });
  const minor = Number(/v1\.(\d+)/.exec(stdout)?.[1]);
  return minor < 34 ? 'v1beta1' : 'v1';
}
