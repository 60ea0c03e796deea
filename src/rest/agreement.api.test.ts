import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest';
import type {} from '../../hack/testing/provided.ts';
import { type AgreementCase, agreementTables } from '../api/_agreement.ts';
import { type DerivedCase, derivedCases } from '../api/_derived.ts';
import { cases as configMapCases } from '../api/v3/_config-map.cases.ts';
import { cases as secretCases } from '../api/v3/_secret.cases.ts';
import type { Kind } from '../kinds/definition.ts';
import { isObject } from '../rules/document.ts';
import { KINDS } from '../subjects/kinds.ts';
import { type CoreDoors, openCoreDoors } from './_core-doors.ts';
import { type Answer, inParallel, openDoors, readAs } from './_doors.ts';
import { demandOfKube, demandOfRest } from './_wording.ts';

/**
 * One document, one verdict: kubectl, YAML files and JSON bodies accept and refuse the same documents of every kind, and a refusal
 * names the same field with the same demand. The documents are the tables of the kinds (src/api/v3/*.cases.ts) and what
 * src/api/_derived.ts makes of their schemas.
 */
const tables = new Map((await agreementTables()).map(([{ kind }, cases]) => [kind, cases]));
const kinds = Object.values(KINDS) as unknown as Kind[];

const doors = await openDoors(inject('kubeconfig'));
afterAll(() => doors[Symbol.asyncDispose]());

describe.each(kinds)('$definition.kind', (kind) => {
  const { definition } = kind;
  const written = tables.get(definition.kind) ?? [];
  const derived = derivedCases(definition, written).filter((_, index) => index % strideOf(kind) === 0);
  const documents: readonly (AgreementCase | DerivedCase)[] = [...written, ...derived];

  test(
    'kubectl, YAML and JSON give every document one verdict, and refusals name the same field and demand',
    async () => {
      const differences: string[] = [];
      await inParallel(documents, async (one) => {
        const { name, spec, accepted } = one;
        if (accepted !== undefined) {
          const asItIs = await doors.kubectl(definition, spec);
          if (asItIs.accepted !== accepted) differences.push(`${name}: kubectl ${shown(asItIs)}`);
        }
        for (const door of isDerived(kind, one) ? (['yaml'] as const) : (['yaml', 'json'] as const)) {
          const answer = await doors[door](kind, spec);
          if (!answer) continue;
          const meant = await doors.kubectl(definition, readAs(kind, spec, door));
          if (!meant.accepted && answer.status === 404) continue;
          if (isRight(answer) !== meant.accepted && !OF_BODIES.test(answer.refusals[0] ?? ''))
            differences.push(`${name}: ${door} ${shown(answer)}; kubectl ${shown(meant)}`);
          else if (!meant.accepted && isObject(spec) && !isFlat(kind, door) && !sameDemand(answer, meant))
            differences.push(`${name}: ${door} says ${shown(answer)}; kubectl ${shown(meant)}`);
        }
      });
      expect(differences.slice(0, 50)).toEqual([]);
    },
    LIMIT_MS,
  );
});

describe('core objects', () => {
  let coreDoors: CoreDoors;
  beforeAll(async () => {
    coreDoors = await openCoreDoors(inject('kubeconfig'));
  });
  afterAll(() => coreDoors?.[Symbol.asyncDispose]());

  test.each([
    ['secrets', secretCases],
    ['configMaps', configMapCases],
  ] as const)(
    'kubectl, YAML and JSON give every document of %s one verdict, and refusals name the same field and demand',
    async (key, cases) => {
      const differences: string[] = [];
      await inParallel(cases, async (one) => {
        const { name, accepted, differs } = one;
        const kubectl = await coreDoors.kubectl(key, one);
        if (kubectl.accepted !== accepted) differences.push(`${name}: kubectl ${shown(kubectl)}`);
        for (const door of ['yaml', 'json'] as const) {
          const answer = await coreDoors[door](key, one);
          if (!answer) continue;
          if (answer.accepted !== (accepted && !differs))
            differences.push(`${name}: ${door} ${shown(answer)}; kubectl ${shown(kubectl)}`);
          else if (!accepted && !sameDemand(answer, kubectl))
            differences.push(`${name}: ${door} says ${shown(answer)}; kubectl ${shown(kubectl)}`);
        }
      });
      expect(differences).toEqual([]);
    },
    LIMIT_MS,
  );
});

/** Entries have a flat form in JSON, with names and words of its own. Its many forms are tested by src/subjects/workloads/rules/entry/flat.test.ts. */
const isFlat = (kind: Kind, door: string) => kind.key === 'applications' && door === 'json';
const isDerived = (kind: Kind, one: AgreementCase | DerivedCase) => kind.key === 'applications' && 'path' in one;

/** Applications have as many documents as all other kinds together, and larger ones: every seventh, and all of them at night. */
const strideOf = ({ key }: Kind) => (key === 'applications' && process.env.SKERRY_NIGHTLY === undefined ? 7 : 1);

/** Seconds on an idle machine. */
const LIMIT_MS = 300_000;

const shown = ({ accepted, refusals }: Answer) => (accepted ? 'accepts' : refusals.join(' | ').slice(0, 300));

/**
 * Whether the document itself is right. What it names may still be missing: REST refuses that at once, with the words of the condition Ready,
 * which an object that kubectl stored then has (src/subjects/workloads/rules/verdicts/verdict.test.ts).
 */
const isRight = ({ accepted, status, code, refusals: [message = ''] }: Answer) =>
  accepted || status === 404 || VERDICTS.has(code) || /^microservice \S*: /.test(message);
const VERDICTS: ReadonlySet<string> = new Set([
  'MICROSERVICE_DOES_NOT_HAVE_IMAGES',
  'REGISTRY_CA_INVALID',
  'DUPLICATE_ID',
  'BUS_RULE_INVALID',
  'SERVICE_INVALID',
  'SERVICE_ROUTER_MODE_NONE',
  'SERVICE_BRIDGE_NOT_CONNECTED',
]);

/** What v3 demands of a body and not of an object, whose node may still report it (docs/spec/rest-v3.md#node-body). */
const OF_BODIES =
  /^(host|interRouterPort|edgeRouterPort): is required with routerMode|^gpsDevice: is required with gpsMode/;

/** REST names one violation, the API server all of them. */
function sameDemand(answer: Answer, kubectl: Answer): boolean {
  const [message = ''] = answer.refusals;
  // A document may be too large before anything in it is.
  if (message.startsWith('the file holds more')) return true;
  const { field, demand } = demandOfRest(message);
  return kubectl.refusals.map(demandOfKube).some(
    (one) =>
      // Patterns have words of their own in REST, where the API server shows the pattern.
      (one.demand === demand || one.demand === 'must match') &&
      // Rules of CEL are those of an object, and REST names the member that they are about.
      (one.field === field ||
        (demand === 'unknown field' && one.field.startsWith(field)) ||
        field.startsWith(`${one.field}.`) ||
        field.startsWith(`${one.field}[`) ||
        one.field === ''),
  );
}
