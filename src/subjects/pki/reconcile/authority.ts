import type { CertificateAuthority } from '../../../api/v3/certificate-authority.ts';
import type { ControllerDependencies } from '../../../controllers/dependencies.ts';
import { createKindController } from '../../../controllers/kind.ts';
import { both, type Controller, keyOf, watching } from '../../../kube/mod.ts';
import type { Progress } from '../../../rules/conditions.ts';
import { stalledBy } from '../../../rules/kind-status.ts';
import type { Signer } from '../../../signer/signer.ts';
import { KINDS } from '../../kinds.ts';
import {
  type AuthorityKeys,
  bundle,
  isOwn,
  KEYS,
  signerOf,
  type Texts,
  textsOfAuthority,
  trustedOf,
  wantedOfAuthority,
} from '../rules/authority.ts';
import { dueOf, requireLasting } from '../rules/due.ts';
import { readCertificates } from '../rules/pair.ts';
import { issuedStatus } from '../rules/status.ts';
import { isValid } from '../rules/validity.ts';
import { controlPlaneVerdict } from '../rules/verdict.ts';
import { createMaterial } from './material.ts';
import { expired, nextOf, SECRET_TAKEN } from './obstacles.ts';
import { deleteSecret, writeSecret } from './secret.ts';

const kind = KINDS.certificateAuthorities;

/**
 * CertificateAuthority: makes the key of a self-signed one and renews it, and writes what machines trust of each. The former key signs
 * until the next certificate is everywhere, and the former certificate is trusted until it expires.
 */
export function createAuthorityController(deps: ControllerDependencies, signer: Signer): Controller {
  const { stores } = deps;
  const material = createMaterial(deps);

  const refusal = (authority: CertificateAuthority) => controlPlaneVerdict(authority, deps.controlPlane);

  const nowFor = (authority: CertificateAuthority, at?: number): number =>
    material.now([authority, material.ofAuthority(authority).known], at);

  async function prepare(authority: CertificateAuthority, signal: AbortSignal): Promise<void> {
    const own = material.ofAuthority(authority);
    if (own.taken || authority.metadata.deletionTimestamp || kind.verdict?.(authority, material.find)) return;
    if (refusal(authority)) return;
    const keys = material.keysOf(authority);
    const texts = isOwn(authority) ? await ownTexts(authority, keys) : trustTexts(authority, keys);
    if (texts) await writeSecret(deps, { ...own, owner: authority, label: 'authority', texts }, signal);
  }

  /** A key that the controller makes, beside the former one. */
  async function ownTexts(
    authority: CertificateAuthority,
    keys: AuthorityKeys | undefined,
  ): Promise<Texts | undefined> {
    const now = nowFor(authority);
    const wanted = wantedOfAuthority(authority);
    const due = dueOf(wanted, keys?.current.facts, undefined, now);
    if (due.issue) {
      const { subject, algorithm } = wanted;
      const pem = await signer.issue({ subject, algorithm, names: [], isAuthority: true, ...due.issue });
      const facts = requireLasting(wanted, pem, undefined, now);
      const former = keys && signerOf(keys, now).pair;
      // Of a key that is lost, or belongs to another owner, machines trust the certificate still.
      const trusted = readCertificates(material.ofAuthority(authority).texts[KEYS.trusted] ?? '');
      const others = keys ? [keys.current.facts, ...keys.others] : trusted;
      return textsOfAuthority({ pem, facts }, former && isValid(former.facts, now) ? former : undefined, others, now);
    }
    if (!keys) return undefined;
    const waits = signerOf(keys, now).until !== undefined;
    return textsOfAuthority(keys.current, waits ? keys.former : undefined, keys.others, now);
  }

  /** What machines trust of an authority whose key is in a Secret of its owner. */
  function trustTexts(authority: CertificateAuthority, keys: AuthorityKeys | undefined): Texts | undefined {
    const present = keys ?? material.keysNamed(authority.spec.secretName);
    return present && { [KEYS.trusted]: bundle(trustedOf(present.current.facts, present.others, nowFor(authority))) };
  }

  const factsOf = (authority: CertificateAuthority) => material.keysOf(authority)?.current.facts;

  function renewAtOf(authority: CertificateAuthority, now = nowFor(authority)): number | undefined {
    const facts = factsOf(authority);
    if (!facts || !isOwn(authority)) return undefined;
    const due = dueOf(wantedOfAuthority(authority), facts, undefined, now);
    return due.issue ? now : due.renewAt;
  }

  function obstacle(authority: CertificateAuthority): Progress | undefined {
    const refused = refusal(authority);
    if (refused) return stalledBy(refused);
    const { taken, name } = material.ofAuthority(authority);
    if (taken) return stalledBy(SECRET_TAKEN(name));
    const facts = factsOf(authority);
    if (!facts) return { is: 'working', reason: 'AuthorityNotReady', message: 'its certificate is being made' };
    return expired(facts, 'AuthorityExpired', nowFor(authority));
  }

  function next(authority: CertificateAuthority, began: number): number | undefined {
    const keys = material.keysOf(authority);
    if (!keys) return undefined;
    const ends = [keys.current.facts, ...keys.others].map(({ notAfter }) => notAfter);
    const now = nowFor(authority, began);
    return nextOf([renewAtOf(authority, now), signerOf(keys, now).until, ...ends], now);
  }

  return createKindController(deps, kind, {
    prepare,
    release: (authority, signal) => deleteSecret(deps, material.ofAuthority(authority), signal),
    obstacle,
    next,
    status: (authority) => issuedStatus(factsOf(authority), renewAtOf(authority)),
    watches: [
      watching(
        stores.secrets,
        both((secret) => material.authoritiesWith(secret).map(keyOf)),
      ),
    ],
  });
}
