import type { Certificate } from '../../../api/v3/certificate.ts';
import type { ControllerDependencies } from '../../../controllers/dependencies.ts';
import { createKindController } from '../../../controllers/kind.ts';
import type { UserIndex } from '../../../datastore/use.ts';
import { type Controller, keyOf, watching } from '../../../kube/mod.ts';
import type { Progress } from '../../../rules/conditions.ts';
import { stalledBy } from '../../../rules/kind-status.ts';
import type { Signer } from '../../../signer/signer.ts';
import { createContentUse } from '../../content/reconcile/content-use.ts';
import { KINDS } from '../../kinds.ts';
import { bundle, chainOf, KEYS, type SignerNow, type Texts, trustedOf } from '../rules/authority.ts';
import { authorityNameOf, wantedOfCertificate } from '../rules/certificate.ts';
import { alternativeNames, type Due, dueOf, requireLasting } from '../rules/due.ts';
import { textOfTime } from '../rules/life.ts';
import { type CertificateFacts, readPair } from '../rules/pair.ts';
import { issuedStatus } from '../rules/status.ts';
import { createMaterial, type OwnSecret, once } from './material.ts';
import { expired, nextOf, SECRET_TAKEN } from './obstacles.ts';
import { deleteSecret, writeSecret } from './secret.ts';

const kind = KINDS.certificates;

/** Certificate: makes its key and has it signed, renews both, and passes on what machines trust of its authority. */
export function createCertificateController(deps: ControllerDependencies, signer: Signer): Controller {
  const { stores } = deps;
  const material = createMaterial(deps);
  /** why the last attempt for this state of an object failed */
  const failures = new WeakMap<Certificate, string>();

  const nowFor = (certificate: Certificate): number =>
    material.now(certificate, material.ofCertificate(certificate).known);

  async function prepare(certificate: Certificate, signal: AbortSignal): Promise<void> {
    const own = material.ofCertificate(certificate);
    if (own.taken || certificate.metadata.deletionTimestamp || kind.verdict?.(certificate, material.find)) return;
    const by = material.signerOf(certificate, nowFor(certificate));
    if (!by || (by !== 'itself' && by.certificate.notAfter <= nowFor(certificate))) return;
    const due = dueNow(certificate, own, by);
    const issued = due.issue ? await issue(certificate, by, due.issue) : own.texts;
    if (!issued) return;
    const texts = { ...issued, [KEYS.trusted]: trusted(issued, by, nowFor(certificate)) };
    await writeSecret(deps, { ...own, owner: certificate, label: 'certificate', texts }, signal);
  }

  const dueNow = (certificate: Certificate, own: OwnSecret, by: SignerNow | 'itself'): Due =>
    dueOf(wantedOfCertificate(certificate), factsIn(own), by === 'itself' ? undefined : by, nowFor(certificate));

  async function issue(
    certificate: Certificate,
    by: SignerNow | 'itself',
    validity: { notBefore: number; notAfter: number },
  ): Promise<Texts | undefined> {
    const { subject, algorithm, hosts } = wantedOfCertificate(certificate);
    const request = { subject, algorithm, names: alternativeNames(hosts), isAuthority: false, ...validity };
    try {
      const { cert, key } = await signer.issue(request, by === 'itself' ? undefined : by.pair.pem);
      requireLasting(
        wantedOfCertificate(certificate),
        { cert, key },
        by === 'itself' ? undefined : by,
        nowFor(certificate),
      );
      return { [KEYS.certificate]: cert + (by === 'itself' ? '' : chainOf(by.pair)), [KEYS.key]: key };
    } catch (error) {
      failures.set(certificate, (error as Error).message);
      return undefined;
    }
  }

  function trusted(texts: Texts, by: SignerNow | 'itself', now: number): string {
    return by === 'itself' ? (texts[KEYS.certificate] ?? '') : bundle(trustedOf(by.certificate, by.others, now));
  }

  function obstacle(certificate: Certificate): Progress | undefined {
    const own = material.ofCertificate(certificate);
    if (own.taken) return stalledBy(SECRET_TAKEN(own.name));
    const by = material.signerOf(certificate, nowFor(certificate));
    const facts = factsIn(own);
    const authority = `the authority "${authorityNameOf(certificate)}"`;
    const failure = failures.get(certificate);
    if (failure !== undefined) return stalledBy({ reason: 'AuthorityInvalid', message: withRest(failure, facts) });
    if (!by)
      return { is: 'working', reason: 'AuthorityNotReady', message: withRest(`${authority} has no key yet`, facts) };
    if (by !== 'itself' && by.certificate.notAfter <= nowFor(certificate))
      return stalledBy({ reason: 'AuthorityExpired', message: withRest(`${authority} has expired`, facts) });
    if (!facts) return { is: 'working', reason: 'AuthorityNotReady', message: 'its certificate is being made' };
    return expired(facts, 'CertificateExpired', nowFor(certificate));
  }

  /** The problem, and how long the present certificate lasts. */
  const withRest = (message: string, facts: CertificateFacts | undefined) =>
    facts ? `${message}; the present certificate is valid until ${textOfTime(facts.notAfter)}` : message;

  function renewAtOf(certificate: Certificate): number | undefined {
    const by = material.signerOf(certificate, nowFor(certificate));
    const own = material.ofCertificate(certificate);
    const due = by && factsIn(own) && dueNow(certificate, own, by);
    return due?.issue ? nowFor(certificate) : due?.renewAt;
  }

  const content = createContentUse(stores, 'secrets');
  const secretOf = (certificate: Certificate) => {
    const { known, taken } = material.ofCertificate(certificate);
    return taken ? undefined : known;
  };
  /** Who uses the Secret uses the certificate. The label of the Secret changes with its users, and leads to another run. */
  const useOfSecret: UserIndex<Certificate> = {
    isUsed(certificate) {
      const secret = secretOf(certificate);
      return secret !== undefined && content.isUsed(secret);
    },
    isUsedBySystem(certificate) {
      const secret = secretOf(certificate);
      return secret !== undefined && content.isUsedBySystem(secret);
    },
    first(certificate) {
      const secret = secretOf(certificate);
      return secret ? content.first(secret) : { named: [], more: 0 };
    },
    users(certificate) {
      return [...useOfSecret.first(certificate).named];
    },
  };

  return createKindController(deps, kind, {
    prepare,
    release: (certificate, signal) => deleteSecret(deps, material.ofCertificate(certificate), signal),
    use: useOfSecret,
    obstacle,
    next(certificate) {
      const facts = factsIn(material.ofCertificate(certificate));
      const by = material.signerOf(certificate, nowFor(certificate));
      const ends = by && by !== 'itself' ? [by.until, by.certificate.notAfter] : [];
      return nextOf([renewAtOf(certificate), facts?.notAfter, ...ends], nowFor(certificate));
    },
    status: (certificate) => {
      const own = material.ofCertificate(certificate);
      return { ...issuedStatus(factsIn(own), renewAtOf(certificate)), ...(!own.taken && { secretName: own.name }) };
    },
    watches: [
      watching(stores.secrets, ({ object }) => material.certificatesWith(object).map(keyOf)),
      watching(stores.certificateAuthorities, ({ object }) => material.signedBy(object).map(keyOf)),
    ],
  });
}

/** The certificate in a Secret whose key is there as well. */
const factsIn = ({ texts }: OwnSecret): CertificateFacts | undefined => factsOf(texts);
const factsOf = once((texts: Texts): CertificateFacts | undefined => {
  const facts = readPair({ cert: texts[KEYS.certificate] ?? '', key: texts[KEYS.key] ?? '' });
  return 'problem' in facts ? undefined : facts;
});
