import type { BusAccountRuleSpec, BusUserRuleSpec } from '../src/api/v3/index.ts';
import { makeNkey, type Nkey, signJwt } from '../src/signer/nkeys.ts';
import { accountClaims, operatorClaims, userClaims } from '../src/subjects/bus-rules/rules/tokens/claims.ts';

/** A chain of trust of the message bus with the tokens of our encoder: an operator, its accounts, their users. */

/** Unix s. */
export const nowSeconds = (): number => Math.floor(Date.now() / 1_000);

export interface ChainUser extends Nkey {
  token: string;
}

interface AccountOptions {
  revocations?: Record<string, number>;
  signingKeys?: readonly string[];
  iat?: number;
}

interface UserOptions {
  isBearer?: boolean;
  exp?: number;
  iat?: number;
  /** signs in place of the account */
  signer?: Nkey;
  name?: string;
}

export interface ChainAccount extends Nkey {
  /** its token with a rule */
  token(rule?: BusAccountRuleSpec, options?: AccountOptions): Promise<string>;
  user(rule?: BusUserRuleSpec, options?: UserOptions): Promise<ChainUser>;
}

export interface Chain {
  operator: Nkey;
  /** of the operator */
  token: string;
  account(name: string): Promise<ChainAccount>;
}

export async function makeChain(): Promise<Chain> {
  const operator = await makeNkey('operator');
  const claims = operatorClaims({ key: operator.publicKey, name: 'test-operator', iat: nowSeconds() });
  return {
    operator,
    token: await signJwt(claims, operator.seed),
    async account(name) {
      const key = await makeNkey('account');
      return {
        ...key,
        token(rule = {}, { revocations = {}, signingKeys = [], iat = nowSeconds() } = {}) {
          const input = { operator: operator.publicKey, key: key.publicKey, name, rule, revocations, signingKeys, iat };
          return signJwt(accountClaims(input), operator.seed);
        },
        async user(rule = {}, { signer, name: called = 'user', iat = nowSeconds(), ...options } = {}) {
          const user = await makeNkey('user');
          const issued = userClaims({
            ...{ account: key.publicKey, key: user.publicKey, name: called, rule, iat, ...options },
            ...(signer && { issuer: signer.publicKey }),
          });
          return { ...user, token: await signJwt(issued, (signer ?? key).seed) };
        },
      };
    },
  };
}
