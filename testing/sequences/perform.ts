import type { Operation } from './draw.ts';
import type { Fleet } from './fleet.ts';
import { activate } from './operations/activate.ts';
import { add } from './operations/add.ts';
import { apply } from './operations/apply.ts';
import { change } from './operations/change.ts';
import { configure } from './operations/configure.ts';
import { create } from './operations/create.ts';
import { remove } from './operations/delete.ts';
import { duplicate } from './operations/duplicate.ts';
import { ENTRY_ROUTES } from './operations/entry-routes.ts';
import { instantiate } from './operations/instantiate.ts';
import { link } from './operations/link.ts';
import type { Perform } from './operations/operation.ts';
import { rename } from './operations/rename.ts';
import { set } from './operations/set.ts';

const OPERATIONS: { readonly [K in Operation['do']]: Perform<K> } = {
  create,
  change,
  delete: remove,
  duplicate,
  rename,
  configure,
  link,
  unlink: link,
  apply,
  instantiate,
  activate,
  add,
  set,
  ...ENTRY_ROUTES,
};

/** Carries out an operation at the controller and in the model, compares every response, and waits for the reconcilers. */
export async function perform(fleet: Fleet, operation: Operation): Promise<void> {
  fleet.pass();
  await OPERATIONS[operation.do](fleet, operation as never);
  await fleet.settle();
}
