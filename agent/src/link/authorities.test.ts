import { X509Certificate } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { createServer } from 'node:https';
import type { AddressInfo } from 'node:net';
import { beforeAll, describe, expect, test } from 'vitest';
import { makeCertificate } from '../../../hack/certificate.ts';
import { silentLog } from '../../../src/lib/log.ts';
import { digestOf } from '../../../src/wire/digest.ts';
import { formatHave, NAMES } from '../../../src/wire/sections.ts';
import { atEnd } from '../../../testing/at-end.ts';
import { temporaryFolder } from '../../../testing/temporary-folder.ts';
import { systemClock } from '../machine/clock.ts';
import { type Identity, type Node, newIdentity, newKey } from '../state/identity.ts';
import { signingKey } from '../state/token.ts';
import { Authorities } from './authorities.ts';
import { ControllerClient } from './client.ts';
import { DatabaseError } from './sync-loop.ts';

const made = () => {
  const { cert, key, ca } = makeCertificate(temporaryFolder(), ['127.0.0.1']);
  return { cert: readFileSync(cert, 'utf8'), key: readFileSync(key, 'utf8'), ca };
};
const [present, next] = [made(), made()];

/** A controller with TLS, whose certificate and list a test changes. */
const controller = { url: '', list: undefined as string | undefined, show: (_: ReturnType<typeof made>) => {} };
beforeAll(async () => {
  const server = createServer({ cert: present.cert, key: present.key }, ({ url }, response) => {
    if (url !== '/api/v3/agent/cert') return void response.end('{"status":"online","timestamp":1000,"uptimeSec":1}');
    if (controller.list !== undefined) return void response.end(controller.list);
    const body = { name: 'NotFound', error: 'x', code: 'CERTIFICATE_NOT_FOUND', message: 'x', retryable: false };
    response.writeHead(404, { 'content-type': 'application/json' }).end(JSON.stringify(body));
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  atEnd(() => {
    server.closeAllConnections();
    server.close();
  });
  controller.url = `https://127.0.0.1:${(server.address() as AddressInfo).port}`;
  controller.show = ({ cert, key }) => {
    server.setSecureContext({ cert, key });
    server.closeAllConnections();
  };
});
const listOf = (...authorities: string[]) => Buffer.from(authorities.join('')).toString('base64');

/** An agent that has joined this controller with an authority, or with none. */
function joined({ ca, controllerCa }: { ca?: string; controllerCa?: string }) {
  controller.list = undefined;
  controller.show(present);
  const node: Node = { uuid: 'u', namespace: 'skerry', controllerUrl: controller.url, ...(ca !== undefined && { ca }) };
  const state = { current: { ...newIdentity(), nodeKey: newKey(), node } as Identity, isFull: false };
  const identity = {
    isLost: false,
    get current() {
      return state.current;
    },
    become(changed: Identity) {
      if (state.isFull) throw new Error('ENOSPC');
      state.current = changed;
    },
  };
  const warnings: object[] = [];
  const log = { ...silentLog, warn: (fields: object) => void warnings.push(fields) };
  const authorities = new Authorities({ identity, controllerCa: () => controllerCa, log });
  const client = new ControllerClient({
    ...{ controllerUrl: controller.url, instance: 'i', boot: 'b', clock: systemClock() },
    ca: authorities.with(ca),
    node: { uuid: 'u', key: signingKey(newKey()) },
  });
  atEnd(() => client.close());
  return { authorities, client, identity, state, warnings };
}
const subjects = (pem = '') => pem.split(/(?<=-----END CERTIFICATE-----\n)/).filter((one) => one.trim() !== '').length;

describe('the authorities of the controller', () => {
  test('are the list that it sends, which is saved with its digest', async () => {
    const { authorities, client, identity } = joined({ ca: present.ca });
    expect(authorities.digests).toEqual({ authorities: '0' });
    controller.list = listOf(present.ca, next.ca);
    await authorities.follow(client);
    const { node } = identity.current;
    expect(subjects(node?.ca)).toBe(2);
    expect(authorities.digests).toEqual({ authorities: digestOf(controller.list) });

    // The next authority signs: the present client connects again, and so does the next process.
    controller.show(next);
    client.trust(node?.ca);
    expect(await client.ping()).toMatchObject({ uptimeSec: 1 });
  });

  test('are trusted by the client from its next connection on, and no longer without the list', async () => {
    const { authorities, client } = joined({ ca: present.ca });
    await client.ping();
    controller.list = listOf(next.ca, present.ca);
    await authorities.follow(client);
    controller.show(next);
    expect(await client.ping()).toMatchObject({ uptimeSec: 1 });
    const other = joined({ ca: present.ca });
    controller.show(next);
    await expect(other.client.ping()).rejects.toMatchObject({ connection: 'BROKEN_CERTIFICATE' });
  });

  test.each<[string, () => string, RegExp]>([
    ['does not fit the certificate that the controller shows', () => listOf(next.ca), /\((UNABLE|SELF|DEPTH)\w+\)$/],
    ['has no certificate', () => listOf('nothing'), /no certificate in PEM/],
    ['is empty', () => '', /no certificate in PEM/],
  ])('stay as they are when the list %s, and the list is not sent again', async (_, list, problem) => {
    const { authorities, client, identity, warnings } = joined({ ca: present.ca });
    controller.list = list();
    await authorities.follow(client);
    expect(identity.current.node).toMatchObject({ ca: present.ca });
    expect(identity.current.node).not.toHaveProperty('caDigest');
    expect(authorities.digests).toEqual({ authorities: digestOf(list()) });
    expect(warnings).toMatchObject([{ problem: expect.stringMatching(problem) }]);
    expect(await client.ping()).toMatchObject({ uptimeSec: 1 });
  });

  test('stay as they are when the controller has no list, and its certificate is known to nobody else', async () => {
    const { authorities, client, identity } = joined({ ca: present.ca });
    await authorities.follow(client);
    expect(identity.current.node?.ca).toBe(present.ca);
  });

  test('include the authority that the settings of the machine name', async () => {
    const { authorities, client, identity } = joined({ controllerCa: present.ca });
    expect(authorities.digests).toEqual({ authorities: '0' });
    controller.list = listOf(next.ca);
    await authorities.follow(client);
    expect(new X509Certificate(identity.current.node?.ca ?? '').raw).toEqual(new X509Certificate(next.ca).raw);
    expect(await client.ping()).toMatchObject({ uptimeSec: 1 });
  });

  test('are not followed by an agent that trusts what its system trusts', () => {
    expect(formatHave({ ...NAMES, ...joined({}).authorities.digests })).not.toContain('authorities');
  });

  test('stay as they are while the disk is full, which is no problem of the connection', async () => {
    const { authorities, client, state, identity } = joined({ ca: present.ca });
    controller.list = listOf(present.ca, next.ca);
    state.isFull = true;
    await expect(authorities.follow(client)).rejects.toBeInstanceOf(DatabaseError);
    expect(authorities.digests).toEqual({ authorities: '0' });
    state.isFull = false;
    await authorities.follow(client);
    expect(subjects(identity.current.node?.ca)).toBe(2);
  });
});
