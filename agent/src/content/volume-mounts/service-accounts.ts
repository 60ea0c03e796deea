import { AGENT_GROUP, AGENT_KEY_FILE, NODE_TOKEN_ISSUER } from '../../../../src/api/names.ts';
import type { Clock } from '../../../../src/lib/clock.ts';
import type { Log } from '../../../../src/lib/log.ts';
import type { MicroserviceView, RoleRule, ServiceAccountView } from '../../../../src/wire/agent.ts';
import { WORKLOAD_TOKEN } from '../../domain/names.ts';
import { TOKEN_FOLDER, tokenPath, tokenTarget } from '../../domain/volume-mounts.ts';
import { errorText } from '../../machine/log.ts';
import type { MountedFiles } from '../../machine/mounted-files.ts';
import type { InUse } from '../../machine/unused-files.ts';
import { type Identity, publicPart } from '../../state/identity.ts';
import { signingKey, signToken } from '../../state/token.ts';

const SECOND = 1000;
const LIFETIME = 3600 * SECOND;
/** A token is replaced when it lives for less than this. */
const LEAST_LEFT = 120 * SECOND;

export interface ServiceAccountsDependencies {
  files: MountedFiles;
  clock: Clock;
  log: Log;
  identity(): Identity;
  /** of the node, or of an agent without one */
  namespace(): string;
  /** PEM by which containers know the local API; absent: it is not served to them */
  authority?: string;
}

type Subject = Pick<MicroserviceView, 'uuid' | 'application' | 'name'> & { serviceAccount: ServiceAccountView };

/**
 * The tokens with which microservices ask the local API: one directory each, with a token that is replaced before it
 * expires. They are signed by the key that never leaves the machine.
 */
export class ServiceAccounts {
  readonly #deps: ServiceAccountsDependencies;
  /** what each token says and until when it is valid, by microservice; those of an earlier process are replaced */
  readonly #written = new Map<string, { claims: string; until: number }>();
  #problem = '';

  constructor(deps: ServiceAccountsDependencies) {
    this.#deps = deps;
  }

  get problems(): string[] {
    return this.#problem ? [`service accounts: ${this.#problem}`] : [];
  }

  /** Writes the tokens that are missing, that say something else than they should, or that expire soon. */
  apply(views: Iterable<MicroserviceView>): void {
    const { files, clock, identity, authority, log } = this.#deps;
    const namespace = this.#deps.namespace();
    const before = this.#problem;
    this.#problem = '';
    const { localKey } = identity();
    const now = clock.now();
    for (const view of views) {
      if (!view.serviceAccount || tokenTarget(view) === undefined) continue;
      const subject = { ...view, serviceAccount: view.serviceAccount };
      const claims = claimsOf(subject, identity(), namespace);
      const text = JSON.stringify(claims);
      const written = this.#written.get(view.uuid);
      if (written?.claims === text && written.until - now > LEAST_LEFT) continue;
      const token = signToken(signingKey(localKey), claims, Math.floor(now / SECOND), LIFETIME / SECOND);
      const content = {
        token,
        namespace,
        [AGENT_KEY_FILE]: JSON.stringify({ ...publicPart(localKey), alg: 'EdDSA' }),
        ...(authority !== undefined && { 'ca.crt': authority }),
      };
      try {
        files.write(
          tokenPath(view.uuid),
          new Map(Object.entries(content).map(([name, one]) => [name, Buffer.from(one)])),
        );
        this.#written.set(view.uuid, { claims: text, until: now + LIFETIME });
      } catch (error) {
        this.#problem = errorText(error);
        if (this.#problem !== before) log.warn({ error: this.#problem }, 'Cannot write the token of a microservice');
      }
    }
  }

  /** Removes the tokens of microservices that are gone; returns whether nothing is left that will have to be removed. */
  tidy({ wanted, isBound }: InUse): boolean {
    const { files } = this.#deps;
    const unwanted = files.list(TOKEN_FOLDER).filter((path) => !wanted.has(path));
    for (const path of unwanted.filter((each) => !isBound(each))) {
      files.remove(path);
      this.#written.delete(path.slice(TOKEN_FOLDER.length + 1));
    }
    return unwanted.every((path) => !isBound(path));
  }
}

/** What a token says (docs/spec/agent-local-api.md#tokens). */
function claimsOf({ uuid, application, name, serviceAccount }: Subject, { node }: Identity, namespace: string) {
  return {
    sub: `system:serviceaccount:${application}:${serviceAccount.name}`,
    iss: NODE_TOKEN_ISSUER,
    aud: [WORKLOAD_TOKEN.audience],
    tokenUse: WORKLOAD_TOKEN.use,
    [AGENT_GROUP]: {
      namespace,
      node: { uuid: node?.uuid ?? '' },
      microservice: { application, name, uuid },
      rbac: { version: 'v1', rulesByGroup: rulesByGroup(serviceAccount.rules) },
    },
  };
}

function rulesByGroup(rules: readonly RoleRule[]): Record<string, Omit<RoleRule, 'apiGroups'>[]> {
  const groups = new Map<string, Omit<RoleRule, 'apiGroups'>[]>();
  for (const { apiGroups, ...rule } of rules)
    for (const group of apiGroups) groups.set(group, [...(groups.get(group) ?? []), rule]);
  return Object.fromEntries(groups);
}
