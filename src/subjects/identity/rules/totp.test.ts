import { describe, expect, it } from 'vitest';
import {
  otpauthUrl,
  recoveryHash,
  type StoredFactor,
  toBase32,
  totpCode,
  withCodeUsed,
  withRecoveryUsed,
} from './totp.ts';

const SECRET = Buffer.from('12345678901234567890');
const factor = (changes: Partial<StoredFactor> = {}): StoredFactor => ({
  secret: toBase32(SECRET),
  enabled: true,
  lastStep: 0,
  recovery: [],
  ...changes,
});

describe('a TOTP code', () => {
  // The vectors of RFC 6238, appendix B, have eight digits; the last six are the code of six digits.
  it.each([
    [59, '94287082'],
    [1_111_111_109, '07081804'],
    [1_111_111_111, '14050471'],
    [1_234_567_890, '89005924'],
    [2_000_000_000, '69279037'],
    [20_000_000_000, '65353130'],
  ])('at %i s is the one of RFC 6238', (seconds, code) => {
    expect(totpCode(SECRET, Math.floor(seconds / 30))).toBe(code.slice(2));
    expect(withCodeUsed(factor(), code.slice(2), seconds * 1_000)?.lastStep).toBe(Math.floor(seconds / 30));
  });

  const step = 1_000;
  const at = (of: number) => totpCode(SECRET, of);
  it('counts in its step and in the one after it', () => {
    expect(withCodeUsed(factor(), at(step), step * 30_000)?.lastStep).toBe(step);
    expect(withCodeUsed(factor(), at(step), step * 30_000 + 59_999)?.lastStep).toBe(step);
    expect(withCodeUsed(factor(), at(step), (step + 2) * 30_000)).toBeUndefined();
    expect(withCodeUsed(factor(), at(step), step * 30_000 - 1)).toBeUndefined();
  });

  it('counts once, and none of an earlier step counts after it', () => {
    const used = withCodeUsed(factor(), at(step), step * 30_000) as StoredFactor;
    expect(withCodeUsed(used, at(step), step * 30_000)).toBeUndefined();
    expect(withCodeUsed(used, at(step - 1), step * 30_000)).toBeUndefined();
    expect(withCodeUsed(used, at(step + 1), (step + 1) * 30_000)?.lastStep).toBe(step + 1);
  });

  it.each(['', '0', 'abcdef', '1234567', '-1', '１２３４５６'])('is not %j', (code) => {
    expect(withCodeUsed(factor(), code, step * 30_000)).toBeUndefined();
  });
});

describe('a recovery code', () => {
  const uuid = '5c9e6679-7425-40de-944b-e07fc1f90ae7';
  const codes = ['00112233aa', '44556677bb'];
  const with2 = factor({ recovery: codes.map((code) => recoveryHash(uuid, code)) });

  it('counts once, in capital letters as well', () => {
    const left = withRecoveryUsed(with2, uuid, ' 00112233AA ') as StoredFactor;
    expect(left.recovery).toEqual([recoveryHash(uuid, '44556677bb')]);
    expect(withRecoveryUsed(left, uuid, '00112233aa')).toBeUndefined();
  });

  it('is of one user', () => {
    expect(withRecoveryUsed(with2, 'another', '00112233aa')).toBeUndefined();
  });
});

describe('the secret for an app', () => {
  // RFC 4648, section 10, without padding.
  it.each([
    ['', ''],
    ['f', 'MY'],
    ['fo', 'MZXQ'],
    ['foo', 'MZXW6'],
    ['foob', 'MZXW6YQ'],
    ['fooba', 'MZXW6YTB'],
    ['foobar', 'MZXW6YTBOI'],
  ])('has the bytes %j as %j', (text, base32) => {
    expect(toBase32(Buffer.from(text))).toBe(base32);
  });

  it('is in a URL whose label no name can leave', () => {
    const url = new URL(otpauthUrl('MZXW6YTB', 'ann+a@x.example?secret=AAAA&issuer=other'));
    expect(url.searchParams.get('secret')).toBe('MZXW6YTB');
    expect(url.searchParams.getAll('issuer')).toEqual(['Controller']);
    expect(decodeURIComponent(url.pathname)).toContain('ann+a@x.example?secret=AAAA');
  });
});
