import { KINDS, type Kinds } from '../subjects/kinds.ts';
import type { ResourceDefinition } from './meta.ts';

/**
 * Documents that REST and kubectl must both accept or both refuse. The table of each kind runs against zod and a real API
 * server; both must give the same verdict and the same normal form.
 */
export interface AgreementCase {
  name: string;
  /** the spec of the object */
  spec: unknown;
  accepted: boolean;
}

export const accepts = (name: string, spec: unknown): AgreementCase => ({ name, spec, accepted: true });
export const refuses = (name: string, spec: unknown): AgreementCase => ({ name, spec, accepted: false });

/** The table of every kind: `v3/_edge-node.cases.ts` for EdgeNode. A kind without one fails here. */
export const agreementTables = (kinds: Kinds = KINDS): Promise<[ResourceDefinition, readonly AgreementCase[]][]> =>
  Promise.all(
    Object.values(kinds).map(async ({ definition }) => {
      const file = definition.kind.replace(/(?<=[a-z])(?=[A-Z])/g, '-').toLowerCase();
      const { cases } = (await import(`./v3/_${file}.cases.ts`)) as { cases: readonly AgreementCase[] };
      return [definition, cases];
    }),
  );
