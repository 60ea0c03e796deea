import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { REGISTRY_USERS, type Registry } from '../../../hack/registry.ts';
import { createAgentFixture, startTestRegistries, type TestRegistries } from '../content/registries/_registries.ts';
import { until } from '../engines/_contract.ts';
import { suiteEngines } from '../engines/_outside.ts';
import { manifestOf } from './_manifest.ts';
import { readRegistryManifest } from './content-manifests.ts';
import { readMicroserviceManifest } from './manifest.ts';

/** A registry of the machine with an authority of its own and a login, which a microservice of the machine names. */

const { password } = REGISTRY_USERS.limpet;
const base64 = (text: string) => Buffer.from(text).toString('base64');

let registries: TestRegistries;
let locked: Registry;
beforeAll(async () => {
  registries = await startTestRegistries();
  locked = await registries.registry(5000, { tls: registries.certificate, auth: 'basic' });
});
afterAll(() => registries[Symbol.asyncDispose]());

/** The manifest of that registry. */
const withPassword = (given: string) =>
  readRegistryManifest(
    JSON.stringify({
      ...{ apiVersion: 'agent.skerry.dev/v1', kind: 'Registry' },
      spec: {
        ...{ url: locked.url, private: true, username: 'limpet', password: given },
        ca: base64(registries.certificate.ca),
      },
    }),
  );

for (const { kind, url } of suiteEngines())
  describe(kind, () => {
    test('a microservice of the machine runs from a private registry of the machine, once its password is right', async () => {
      await using fixture = await createAgentFixture(url);
      const { agent, controller } = fixture;
      const wrong = 'canary-wrong';
      expect(agent.registries.apply(withPassword(wrong)).id).toBe(4);
      // A controller may have another registry under this number: that is none of the machine's.
      controller.change({ registries: [{ id: 4, url: 'elsewhere.example', username: 'canary-theirs' }] });
      const { name, view } = readMicroserviceManifest(manifestOf('till', 'team/sample:1', {}, { registry: 4 }));
      // The files of the fixture are in memory, where no engine finds a token.
      const withoutToken = (uuid: string) => ({ ...view(uuid), serviceAccount: null });
      const { uuid } = agent.own.deploy({ name, view: withoutToken, manifest: '' }).row;
      const status = () => agent.microservices()?.find(({ id }) => id === uuid);
      await until('the refusal', () => /refuses the user/.test(status()?.errorMessage ?? ''), 30_000);
      agent.registries.apply(withPassword(password));
      await until('RUNNING', () => status()?.status === 'RUNNING', 30_000);
      expect(() => agent.registries.remove(4)).toThrow(/registry 4 is in use/);
      const said = JSON.stringify([agent.report(true), controller.reports, agent.microservices()]) + fixture.logged();
      for (const secret of [password, wrong, base64(`limpet:${password}`)]) expect(said).not.toContain(secret);
      agent.own.remove(uuid);
      await until('the end of its container', () => !agent.supervisor.present.includes(uuid), 30_000);
      agent.registries.remove(4);
    });
  });
