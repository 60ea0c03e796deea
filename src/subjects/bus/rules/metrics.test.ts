import { expect, test } from 'vitest';
import type { BusAccount } from '../../../api/v3/bus-account.ts';
import { accountFigures } from './metrics.ts';

const account = (status: 'True' | 'False' | undefined) =>
  ({ status: status && { conditions: [{ type: 'Ready', status }] } }) as BusAccount;

test('figures count accounts by their condition Ready', () => {
  expect([...accountFigures([account('True'), account('True'), account('False'), account(undefined)])]).toEqual([
    ['True', 2],
    ['False', 1],
    ['Unknown', 1],
  ]);
});
