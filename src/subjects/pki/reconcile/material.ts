import { AUTHORITY_SECRET_PREFIX } from '../../../api/names.ts';
import type { Secret } from '../../../api/resources.ts';
import type { Certificate } from '../../../api/v3/certificate.ts';
import type { CertificateAuthority } from '../../../api/v3/certificate-authority.ts';
import type { ControllerDependencies } from '../../../controllers/dependencies.ts';
import { createReferences } from '../../../datastore/use.ts';
import { referenceKey } from '../../../kinds/definition.ts';
import type { KubeObject } from '../../../kube/mod.ts';
import { onceEach } from '../../../rules/once-each.ts';
import { textNameOf, textOfSecret } from '../../content/rules/core-objects/form.ts';
import { authorityOf } from '../kinds/certificate.ts';
import { shareableSecret } from '../kinds/shared.ts';
import {
  type AuthorityKeys,
  authoritySecretName,
  isOwn,
  isSecretOf,
  isSystemAuthority,
  KEYS,
  keysIn,
  type SignerNow,
  signerOf,
  type Texts,
} from '../rules/authority.ts';
import { authorityNameOf } from '../rules/certificate.ts';
import { type CertificateFacts, readCertificates, readPair } from '../rules/pair.ts';
import { timeOf } from '../rules/validity.ts';
import { controlPlaneVerdict } from '../rules/verdict.ts';

/** The Secret that an object has or will have; `taken`: something else has its name. */
export interface OwnSecret {
  name: string;
  known: Secret | undefined;
  texts: Texts;
  /** the certificate in it whose key is there as well */
  facts: CertificateFacts | undefined;
  taken: boolean;
}

/** The keys and certificates in the Secrets of the stores. Objects of a store never change, so that each is read once. */
export function createMaterial({
  stores,
  kinds,
  namespace,
  controlPlane,
  clock,
}: Pick<ControllerDependencies, 'stores' | 'kinds' | 'namespace' | 'controlPlane' | 'clock'>) {
  const { find } = createReferences(stores, kinds);
  const shared = shareableSecret(find);
  const textsIn = onceEach((secret: Secret): Texts => textOfSecret(secret).data);
  const factsIn = onceEach((secret: Secret) => {
    const texts = textsIn(secret);
    const facts = readPair({ cert: texts[KEYS.certificate] ?? '', key: texts[KEYS.key] ?? '' });
    return { facts: 'problem' in facts ? undefined : facts };
  });
  const keysInSecret = onceEach((secret: Secret) => keysIn(textsIn(secret)));
  const trustedIn = onceEach((secret: Secret) => readCertificates(textsIn(secret)[KEYS.trusted] ?? ''));

  function own(label: 'certificate' | 'authority', object: string, name: string): OwnSecret {
    const known = stores.secrets.get(namespace, name);
    const taken = known !== undefined && !isSecretOf(known, label, object);
    const content = known && !taken ? { texts: textsIn(known), ...factsIn(known) } : { texts: {}, facts: undefined };
    return { name, known, taken, ...content };
  }
  const ofCertificate = ({ metadata: { name } }: Certificate) => own('certificate', name, name);
  const ofAuthority = ({ metadata: { name } }: CertificateAuthority) =>
    own('authority', name, authoritySecretName(name));

  /** The keys in a shareable Secret; undefined where there are none. */
  function keysNamed(name: string | undefined): AuthorityKeys | undefined {
    const secret = name === undefined ? undefined : shared(name);
    const keys = secret && keysInSecret(secret);
    return keys && !('problem' in keys) ? keys : undefined;
  }

  /** The keys of an authority; undefined while it has none. */
  function keysOf(authority: CertificateAuthority): AuthorityKeys | undefined {
    const { known, taken } = ofAuthority(authority);
    if (!known || taken || controlPlaneVerdict(authority, controlPlane)) return undefined;
    if (!isOwn(authority)) {
      const named = keysNamed(authority.spec.secretName);
      return named && { ...named, others: trustedIn(known) };
    }
    const keys = keysInSecret(known);
    return 'problem' in keys ? undefined : keys;
  }

  return {
    find,
    /** Now, and not before what the API server noted on these objects: a controller whose clock is behind signs nothing that expired. */
    now: (objects: readonly (KubeObject | undefined)[], at = clock()): number =>
      Math.max(at, ...objects.flatMap((object) => (object ? timesOf(object) : []))),
    ofCertificate,
    ofAuthority,
    keysNamed,
    keysOf,
    /** What signs a certificate now: an authority, or without one its own key; undefined while the authority cannot. */
    signatureOf(certificate: Certificate, now: number): { authority?: SignerNow } | undefined {
      const name = authorityNameOf(certificate);
      if (name === undefined) return {};
      const authority = authorityOf(certificate, find);
      const keys = authority ? keysOf(authority) : keysNamed(isSystemAuthority(name) ? undefined : name);
      return keys && { authority: signerOf(keys, now) };
    },
    /** The authorities that have a Secret, whose name is taken by it, or that name it. */
    authoritiesWith(secret: Secret): readonly CertificateAuthority[] {
      const { name } = secret.metadata;
      const owner = name.startsWith(AUTHORITY_SECRET_PREFIX)
        ? stores.certificateAuthorities.get(namespace, name.slice(AUTHORITY_SECRET_PREFIX.length))
        : undefined;
      return [...(owner ? [owner] : []), ...stores.certificateAuthorities.byIndex('ref', secretKey(secret))];
    },
    /** The certificates that have a Secret, whose name is taken by it, that name it, or are signed by an authority that does. */
    certificatesWith(secret: Secret): readonly Certificate[] {
      const owner = stores.certificates.get(namespace, secret.metadata.name);
      return [
        ...(owner ? [owner] : []),
        ...stores.certificates.byIndex('ref', secretKey(secret)),
        ...this.authoritiesWith(secret).flatMap((authority) => this.signedBy(authority)),
      ];
    },
    signedBy: ({ metadata: { name } }: CertificateAuthority): readonly Certificate[] =>
      stores.certificates.byIndex('ref', referenceKey({ to: 'certificateAuthorities', ref: name })),
  };
}

/** When the API server created and changed an object, Unix ms. */
const timesOf = onceEach(({ metadata }: KubeObject): readonly number[] => {
  const { managedFields = [] } = metadata as { managedFields?: readonly { time?: string }[] };
  const texts = [metadata.creationTimestamp, ...managedFields.map(({ time }) => time)];
  return texts.map(timeOf).filter((at) => at !== undefined);
});

const secretKey = (secret: Secret) => referenceKey({ to: 'secrets', ref: textNameOf(secret) });
