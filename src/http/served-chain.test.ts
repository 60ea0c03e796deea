import { expect, test } from 'vitest';
import { servedChain } from './served-chain.ts';

const certificate = (text: string) => `-----BEGIN CERTIFICATE-----\n${text}\n-----END CERTIFICATE-----\n`;
const [own, between, authority] = ['b3du', 'YmV0d2Vlbg==', 'YXV0aG9yaXR5'].map(certificate) as [string, string, string];

test('the authority is sent with the chain, once', () => {
  expect(servedChain(own + between, authority)).toBe(own + between + authority);
  expect(servedChain(own + authority, authority.replaceAll('\n', '\r\n'))).toBe(own + authority);
  expect(servedChain(own, undefined)).toBe(own);
});
