import { execFileSync } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { KubeConfig } from '@kubernetes/client-node';
import { expect, onTestFinished, test } from 'vitest';
import { makeCertificate } from '../../hack/certificate.ts';
import { startControlPlane } from '../../hack/control-plane.ts';
import { temporaryFolder } from '../../testing/temporary-folder.ts';
import { connect } from './_api-server.ts';
import { loadConfig } from './_fault-proxy.ts';
import { isUnauthorized } from './api-error.ts';

test('a kubeconfig with a client certificate authenticates as the subject of the certificate file, also after the file was replaced', async () => {
  const dir = temporaryFolder();
  makeCertificate(dir, ['127.0.0.1']);
  const file = (name: string) => join(dir, name);
  const sign = (name: string, subject: string) => {
    const openssl = (...args: string[]) => execFileSync('openssl', args, { stdio: ['ignore', 'ignore', 'pipe'] });
    const key = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256', '-nodes'];
    openssl('req', ...key, '-subj', subject, '-keyout', file(`${name}.key`), '-out', file(`${name}.csr`));
    writeFileSync(file('client.ext'), 'extendedKeyUsage=clientAuth\n');
    const authority = ['-CA', file('ca.pem'), '-CAkey', file('ca.key'), '-CAcreateserial', '-days', '2'];
    const how = ['-req', '-in', file(`${name}.csr`), ...authority, '-extfile', file('client.ext')];
    openssl('x509', ...how, '-out', file(`${name}.pem`));
  };
  sign('ann', '/O=system:masters/CN=ann');
  const cluster = await startControlPlane({
    dir: file('cluster'),
    controllerManager: false,
    apiServerFlags: ['--client-ca-file', file('ca.pem')],
  });
  onTestFinished(() => cluster.stop());
  const current = loadConfig(cluster.kubeconfig).getCurrentCluster();
  const config = (name: string) => () => {
    const made = new KubeConfig();
    made.loadFromClusterAndUser(
      { name: 'c', server: current?.server ?? '', caData: current?.caData ?? '', skipTLSVerify: false },
      { name: 'u', certFile: file(`${name}.pem`), keyFile: file(`${name}.key`) },
    );
    return made;
  };
  const whoAmI = async (name: string) => {
    const body = { apiVersion: 'authentication.k8s.io/v1', kind: 'SelfSubjectReview' };
    const review = await connect(config(name)).request(
      'POST',
      '/apis/authentication.k8s.io/v1/selfsubjectreviews',
      body,
    );
    return (review as { status: { userInfo: { username: string } } }).status.userInfo.username;
  };
  expect(await whoAmI('ann')).toBe('ann');
  // Renewed in place, as kubelet and cert-manager do.
  sign('ann', '/O=system:masters/CN=ann-renewed');
  expect(await whoAmI('ann')).toBe('ann-renewed');
  // A certificate of another authority is refused.
  makeCertificate(file('other'), ['127.0.0.1']);
  writeFileSync(file('eve.pem'), readFileSync(join(dir, 'other', 'server.pem')));
  writeFileSync(file('eve.key'), readFileSync(join(dir, 'other', 'server.key')));
  expect(isUnauthorized(await whoAmI('eve').catch((error: unknown) => error))).toBe(true);
}, 120_000);
