import { AGENT_GROUP, AGENT_KEY_FILE } from '../../../../src/api/names.ts';
import type { Clock } from '../../../../src/lib/clock.ts';
import type { Log } from '../../../../src/lib/log.ts';
import type { MicroserviceView, RoleRule, ServiceAccountView } from '../../../../src/wire/agent.ts';
import { WORKLOAD_TOKEN } from '../../domain/names.ts';
import { TOKEN_FOLDER, tokenPath, tokenTarget } from '../../domain/volume-mounts.ts';
import { errorText } from '../../machine/log.ts';
import type { MountedFiles } from '../../machine/mounted-files.ts';
import type { InUse } from '../../machine/unused-files.ts';
import { type Identity, publicPart } from '../../state/identity.ts';
import type { LocalTokens } from '../../state/local-tokens.ts';

const SECOND = 1000;
const LIFETIME = 3600 * SECOND;
/** A token is replaced when it lives for less than this. */
const LEAST_LEFT = 120 * SECOND;

export interface ServiceAccountsDependencies {
  files: MountedFiles;
  clock: Clock;
  log: Log;
  identity(): Identity;
  /** of an agent that is no node; absent: default */
  namespace?: () => string;
  tokens: LocalTokens;
  /** PEM by which containers know the local API; undefined: it is not served to them */
  authority(): string | undefined;
}

type Subject = Pick<MicroserviceView, 'uuid' | 'application' | 'name'> & { serviceAccount: ServiceAccountView };

/**
 * The tokens with which microservices ask the local API: one directory each, with a token that is replaced before it
 * expires. They are signed by the key that never leaves the machine.
 */
export class ServiceAccounts {
  readonly #deps: ServiceAccountsDependencies;
  /** what each directory says and until when its token is valid, by microservice; what an earlier process wrote is replaced */
  readonly #written = new Map<string, { said: string; jti: string; until: number }>();
  #problem = '';

  constructor(deps: ServiceAccountsDependencies) {
    this.#deps = deps;
  }

  get problems(): string[] {
    return this.#problem ? [`service accounts: ${this.#problem}`] : [];
  }

  /** Writes the tokens that are missing, that say something else than they should, that were revoked, or that expire soon. */
  apply(views: Iterable<MicroserviceView>): void {
    const before = this.#problem;
    this.#problem = '';
    for (const view of views) {
      if (!view.serviceAccount || tokenTarget(view) === undefined) continue;
      try {
        this.#write({ ...view, serviceAccount: view.serviceAccount });
      } catch (error) {
        this.#problem = errorText(error);
        if (this.#problem !== before)
          this.#deps.log.warn({ error: this.#problem }, 'Cannot write the token of a microservice');
      }
    }
  }

  #write(subject: Subject): void {
    const { files, clock, identity, tokens, authority } = this.#deps;
    const { uuid } = subject;
    const namespace = identity().node?.namespace ?? this.#deps.namespace?.() ?? 'default';
    const claims = claimsOf(subject, identity(), namespace);
    const others = {
      namespace,
      [AGENT_KEY_FILE]: JSON.stringify({ ...publicPart(tokens.key), alg: 'EdDSA' }),
      'ca.crt': authority(),
    };
    const said = JSON.stringify([claims, others]);
    const now = clock.now();
    const written = this.#written.get(uuid);
    if (written?.said === said && written.until - now > LEAST_LEFT && tokens.isCurrent(written.jti)) return;
    const path = tokenPath(uuid);
    if (!written) tokens.note(uuid, files.read(path)?.get('token')?.toString() ?? '');
    const { token, jti } = tokens.issue(uuid, claims, LIFETIME / SECOND);
    const content = Object.entries({ token, ...others }).flatMap(([name, text]) =>
      text === undefined ? [] : [[name, Buffer.from(text)] as const],
    );
    files.write(path, new Map(content));
    this.#written.set(uuid, { said, jti, until: now + LIFETIME });
  }

  /** Removes the tokens of microservices that are gone; returns whether nothing is left that will have to be removed. */
  tidy({ wanted, isBound }: InUse): boolean {
    const { files } = this.#deps;
    const unwanted = files.list(TOKEN_FOLDER).filter((path) => !wanted.has(path));
    for (const path of unwanted.filter((each) => !isBound(each))) {
      files.remove(path);
      const uuid = path.slice(TOKEN_FOLDER.length + 1);
      this.#written.delete(uuid);
      this.#deps.tokens.forget(uuid);
    }
    return unwanted.every((path) => !isBound(path));
  }
}

/** What a token says (docs/spec/agent-local-api.md#tokens). */
function claimsOf({ uuid, application, name, serviceAccount }: Subject, { node }: Identity, namespace: string) {
  return {
    sub: `system:serviceaccount:${application}:${serviceAccount.name}`,
    aud: [WORKLOAD_TOKEN.audience],
    tokenUse: WORKLOAD_TOKEN.use,
    [AGENT_GROUP]: {
      namespace,
      node: { uuid: node?.uuid ?? '' },
      microservice: { application, name, uuid },
      rbac: {
        version: 'v1',
        ...(serviceAccount.roleRef && { roleRef: serviceAccount.roleRef }),
        rulesByGroup: rulesByGroup(serviceAccount.rules),
      },
    },
  };
}

function rulesByGroup(rules: readonly RoleRule[]): Record<string, Omit<RoleRule, 'apiGroups'>[]> {
  const groups = new Map<string, Omit<RoleRule, 'apiGroups'>[]>();
  for (const { apiGroups, ...rule } of rules)
    for (const group of apiGroups) groups.set(group, [...(groups.get(group) ?? []), rule]);
  return Object.fromEntries(groups);
}
