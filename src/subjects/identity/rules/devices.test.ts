import { describe, expect, test } from 'vitest';
import { loggedInBy, reservedByDevice, rightByDevice } from './devices.ts';

const POLICY = { maxFailedAttempts: 5 };

describe('the browser of the last login', () => {
  test('has as many attempts of its own as an account', () => {
    let devices = loggedInBy('own', 1);
    for (let taken = 1; taken <= 5; taken++) {
      devices = reservedByDevice(devices, 'own', POLICY) ?? [];
      expect(devices).toEqual([{ id: 'own', failed: taken, at: 1 }]);
    }
    expect(reservedByDevice(devices, 'own', POLICY)).toBeUndefined();
  });

  test.each([undefined, '', 'other'])('is not the browser %j', (id) => {
    expect(reservedByDevice(loggedInBy('own', 1), id, POLICY)).toBeUndefined();
    expect(reservedByDevice([], id, POLICY)).toBeUndefined();
  });

  test('gets the attempt of a right part back, and all after a whole login', () => {
    const devices = [{ id: 'own', failed: 3, at: 1 }];
    expect(rightByDevice(devices, 'own', false)).toEqual([{ id: 'own', failed: 2, at: 1 }]);
    expect(rightByDevice(devices, 'own', true)).toEqual([{ id: 'own', failed: 0, at: 1 }]);
    expect(rightByDevice(devices, 'other', true)).toEqual(devices);
  });
});
