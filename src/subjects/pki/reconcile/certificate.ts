import type { Certificate } from '../../../api/v3/certificate.ts';
import type { ControllerDependencies } from '../../../controllers/dependencies.ts';
import { createKindController } from '../../../controllers/kind.ts';
import type { UserIndex } from '../../../datastore/use.ts';
import { both, type Controller, keyOf, watching } from '../../../kube/mod.ts';
import type { Progress } from '../../../rules/conditions.ts';
import { stalledBy } from '../../../rules/kind-status.ts';
import type { Signer } from '../../../signer/signer.ts';
import { createContentUse } from '../../content/reconcile/content-use.ts';
import { KINDS } from '../../kinds.ts';
import { bundle, chainOf, KEYS, type Texts, trustedOf } from '../rules/authority.ts';
import { authorityNameOf, wantedOfCertificate } from '../rules/certificate.ts';
import { alternativeNames, dueOf, requireLasting } from '../rules/due.ts';
import type { CertificateFacts } from '../rules/pair.ts';
import { issuedStatus } from '../rules/status.ts';
import { textOfTime, type Validity } from '../rules/validity.ts';
import { createMaterial } from './material.ts';
import { expired, nextOf, SECRET_TAKEN } from './obstacles.ts';
import { deleteSecret, writeSecret } from './secret.ts';

const kind = KINDS.certificates;

/** Certificate: makes its key and has it signed, renews both, and passes on what machines trust of its authority. */
export function createCertificateController(deps: ControllerDependencies, signer: Signer): Controller {
  const { stores } = deps;
  const material = createMaterial(deps);
  /** why the last attempt for this state of an object failed */
  const failures = new WeakMap<Certificate, string>();

  /** What a certificate is and asks at this moment; each step looks again, since the step before may have written the Secret. */
  function situationOf(certificate: Certificate, at?: number) {
    const own = material.ofCertificate(certificate);
    const now = material.now([certificate, own.known], at);
    const wanted = wantedOfCertificate(certificate);
    const signature = material.signatureOf(certificate, now);
    const authority = signature?.authority;
    return {
      ...{ own, now, wanted, signature, authority },
      isAuthorityExpired: authority !== undefined && authority.certificate.notAfter <= now,
      due: signature && dueOf(wanted, own.facts, authority, now),
    };
  }
  type Situation = ReturnType<typeof situationOf>;

  async function prepare(certificate: Certificate, signal: AbortSignal): Promise<void> {
    const situation = situationOf(certificate);
    const { own, due } = situation;
    if (own.taken || certificate.metadata.deletionTimestamp || kind.verdict?.(certificate, material.find)) return;
    if (!due || situation.isAuthorityExpired) return;
    const issued = due.issue ? await issue(certificate, situation, due.issue) : own.texts;
    if (!issued) return;
    const texts = { ...issued, [KEYS.trusted]: trusted(issued, situation) };
    await writeSecret(deps, { ...own, owner: certificate, label: 'certificate', texts }, signal);
  }

  async function issue(
    certificate: Certificate,
    { wanted, authority, now }: Situation,
    validity: Validity,
  ): Promise<Texts | undefined> {
    const { subject, algorithm, hosts } = wanted;
    const request = { subject, algorithm, names: alternativeNames(hosts), isAuthority: false, ...validity };
    try {
      const { cert, key } = await signer.issue(request, authority?.pair.pem);
      requireLasting(wanted, { cert, key }, authority, now);
      return { [KEYS.certificate]: cert + (authority ? chainOf(authority.pair) : ''), [KEYS.key]: key };
    } catch (error) {
      failures.set(certificate, (error as Error).message);
      return undefined;
    }
  }

  const trusted = (texts: Texts, { authority, now }: Situation): string =>
    authority ? bundle(trustedOf(authority.certificate, authority.others, now)) : (texts[KEYS.certificate] ?? '');

  function obstacle(certificate: Certificate): Progress | undefined {
    const situation = situationOf(certificate);
    const { own, signature, now } = situation;
    if (own.taken) return stalledBy(SECRET_TAKEN(own.name));
    const { facts } = own;
    const authority = `the authority "${authorityNameOf(certificate)}"`;
    const failure = failures.get(certificate);
    if (failure !== undefined) return stalledBy({ reason: 'AuthorityInvalid', message: withRest(failure, facts) });
    if (!signature)
      return { is: 'working', reason: 'AuthorityNotReady', message: withRest(`${authority} has no key yet`, facts) };
    if (situation.isAuthorityExpired)
      return stalledBy({ reason: 'AuthorityExpired', message: withRest(`${authority} has expired`, facts) });
    if (!facts) return { is: 'working', reason: 'AuthorityNotReady', message: 'its certificate is being made' };
    return expired(facts, 'CertificateExpired', now);
  }

  /** The problem, and how long the present certificate lasts. */
  const withRest = (message: string, facts: CertificateFacts | undefined) =>
    facts ? `${message}; the present certificate is valid until ${textOfTime(facts.notAfter)}` : message;

  const renewAtOf = ({ own, due, now }: Situation): number | undefined => {
    if (!own.facts) return undefined;
    return due?.issue ? now : due?.renewAt;
  };

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
    next(certificate, began) {
      const situation = situationOf(certificate, began);
      const { own, authority, now } = situation;
      const ends = [own.facts?.notAfter, authority?.until, authority?.certificate.notAfter];
      return nextOf([renewAtOf(situation), ...ends], now);
    },
    status(certificate) {
      const situation = situationOf(certificate);
      const { own } = situation;
      return { ...issuedStatus(own.facts, renewAtOf(situation)), ...(!own.taken && { secretName: own.name }) };
    },
    watches: [
      watching(
        stores.secrets,
        both((secret) => material.certificatesWith(secret).map(keyOf)),
      ),
      watching(stores.certificateAuthorities, ({ object }) => material.signedBy(object).map(keyOf)),
    ],
  });
}
