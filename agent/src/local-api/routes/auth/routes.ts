import { z } from 'zod';
import { AGENT_GROUP } from '../../../../../src/api/names.ts';
import { saving } from '../../../domain/agent-error.ts';
import type { KnownToken } from '../../../state/local-tokens.ts';
import type { Revocation } from '../../../state/revocations.ts';
import { routesWith } from '../../server/route.ts';
import { isAdmin } from '../../server/token.ts';

/** What the routes of tokens need of the agent. */
export interface AuthDependencies {
  agent: {
    readonly tokens: {
      list(): KnownToken[];
      /** Returns whether the key was replaced, which ends all tokens. Throws, and revokes nothing, when it cannot be saved. */
      revoke(revocations: readonly Revocation[]): boolean;
    };
  };
  adminToken: {
    /** Writes another admin token where the present one counts no more; returns whether it did. */
    renewRevoked(): boolean;
  };
}

const { route } = routesWith<AuthDependencies>('tokens');

/** The tokens of this API, for the admin of the machine. */
export const AUTH_ROUTES = [
  route({
    method: 'GET',
    path: '/v1/auth/tokens',
    operation: 'listTokens',
    summary: 'The tokens of this API that are valid or revoked, without the tokens themselves',
    access: 'admin',
    reply: { form: 'envelope', schema: () => z.object({ items: z.array(tokenRow()) }) },
    handler: ({ deps: { agent } }) => ({ items: agent.tokens.list().map(rowOf) }),
  }),
  route({
    method: 'POST',
    path: '/v1/auth/tokens/revoke',
    operation: 'revokeTokens',
    summary: 'Ends tokens before their time: one by its id, or all of a subject that were made until now',
    access: 'admin',
    body: () => {
      const [id, subject] = ['the id of a token', 'the subject of tokens'];
      const shape = {
        jti: z
          .string(id)
          .regex(/^[\w-]{8,128}$/, id)
          .optional()
          .describe(id),
        subject: z.string(subject).min(1, subject).max(512, subject).optional().describe(subject),
      };
      return z.object(shape).refine(({ jti, subject }) => jti !== undefined || subject !== undefined, {
        path: ['jti'],
        error: 'jti: give jti, subject, or both',
      });
    },
    errors: [503],
    reply: {
      form: 'envelope',
      schema: () =>
        z.object({
          status: z.literal('ok'),
          adminTokenRenewed: z.boolean().describe('the file of the admin token has another one now'),
          keyReplaced: z
            .boolean()
            .describe('the list of revocations was full: all tokens ended, and new ones are written'),
        }),
    },
    handler: ({ body: { jti, subject }, deps: { agent, adminToken } }) => {
      const revocations: Revocation[] = [
        ...(jti === undefined ? [] : [{ jti }]),
        ...(subject === undefined ? [] : [{ subject }]),
      ];
      const keyReplaced = saving('nothing was revoked', () => agent.tokens.revoke(revocations));
      const consequence = 'the tokens are revoked, and there is no admin token until the agent starts again';
      return { status: 'ok', adminTokenRenewed: saving(consequence, () => adminToken.renewRevoked()), keyReplaced };
    },
  }),
];

function tokenRow() {
  const text = z.string().optional();
  return z.object({
    ...{ id: z.string(), jti: z.string() },
    tokenUse: text,
    principalType: z.enum(['admin', 'serviceAccount']).optional(),
    ...{ subject: text, microserviceUuid: text, applicationName: text, serviceAccountName: text },
    roleRef: z.object({ kind: z.string(), name: z.string() }).optional(),
    rbacVersion: text,
    rulesByGroup: z.record(z.string(), z.unknown()).optional(),
    ...{ issuer: text, audience: z.array(z.string()).optional(), alg: text },
    ...{ issuedAt: text, notBefore: text, expiresAt: text, revokedAt: text },
    rotatedFromJti: text.describe('the token that it took the place of'),
  });
}

/** The row of a token; a token that an earlier process made and that was revoked has no more than its id. */
function rowOf({ claims, rotatedFrom, revokedAt }: KnownToken): z.input<ReturnType<typeof tokenRow>> {
  const { jti, tokenUse, sub, iss, aud, iat, nbf, exp } = claims;
  return {
    ...{ id: jti, jti },
    ...(sub !== undefined && {
      ...{ tokenUse, subject: sub, issuer: iss, audience: aud, alg: 'EdDSA' },
      ...{ issuedAt: timeOf(iat), notBefore: timeOf(nbf), expiresAt: timeOf(exp) },
      ...principalOf(claims),
    }),
    ...(revokedAt !== undefined && { revokedAt: new Date(revokedAt).toISOString() }),
    ...(rotatedFrom !== undefined && { rotatedFromJti: rotatedFrom }),
  };
}

function principalOf(claims: KnownToken['claims']) {
  if (isAdmin(claims)) return { principalType: 'admin' as const };
  const { microservice, rbac } = (claims as { [AGENT_GROUP]?: OwnClaims })[AGENT_GROUP] ?? {};
  return {
    principalType: 'serviceAccount' as const,
    ...{ microserviceUuid: microservice?.uuid, applicationName: microservice?.application },
    ...{
      serviceAccountName: claims.sub?.split(':').at(-1),
      ...(rbac?.roleRef && { roleRef: rbac.roleRef }),
      rbacVersion: rbac?.version,
      rulesByGroup: rbac?.rulesByGroup,
    },
  };
}

interface OwnClaims {
  microservice?: { uuid: string; application: string };
  rbac?: { version: string; roleRef?: { kind: string; name: string }; rulesByGroup: Record<string, unknown> };
}

const timeOf = (seconds: number | undefined) =>
  seconds === undefined ? undefined : new Date(seconds * 1000).toISOString();
