import { once } from 'node:events';
import type { Secret } from '../../api/resources.ts';
import { decodeData } from '../../datastore/keyed-text.ts';
import type { Store } from '../../kube/store.ts';
import { BUS_KEYS, type BusSecretOf, type BusTexts, isBusSecretOf } from '../../subjects/bus-accounts/rules/secret.ts';
import type { BusSecretReader } from '../contract/dependencies.ts';

/** Reads the Secrets of the message bus from the store of this replica. */
export function createBusSecretReader(store: Store<Secret>, namespace: string): BusSecretReader {
  function read(of: BusSecretOf, name: string): BusTexts {
    const secret = store.get(namespace, name);
    return secret && isBusSecretOf(secret, of) ? decodeData(secret.data) : {};
  }
  return {
    read,
    async whenSigned(of, name, ms, signal) {
      const isSigned = () => read(of, name)[BUS_KEYS.token] !== undefined;
      if (!isSigned() && ms > 0) {
        const signed = new AbortController();
        const late = AbortSignal.timeout(Math.ceil(ms));
        using _following = store.subscribe(() => isSigned() && signed.abort());
        const any = AbortSignal.any([signed.signal, late, signal]);
        if (!any.aborted) await once(any, 'abort');
      }
      return read(of, name);
    },
  };
}
