import { API_VERSION } from '../src/api/names.ts';

/** An object of a kind of ours, as a manifest has it. */
export const manifest = <K extends string, M extends object, S>(kind: K, metadata: M, spec: S) => ({
  ...{ apiVersion: API_VERSION, kind, metadata, spec },
});
