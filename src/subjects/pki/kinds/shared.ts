import { z } from 'zod';
import type { Secret } from '../../../api/resources.ts';
import type { FindReferenced } from '../../../kinds/object.ts';
import { type SecretForm, textOfSecret } from '../../content/rules/core-objects/form.ts';
import type { Texts } from '../rules/authority.ts';

/** A shareable Secret, by its v3 name. */
export const shareableSecret =
  (find: FindReferenced) =>
  (name: string): Secret | undefined =>
    (find({ to: 'secrets', ref: name }) as SecretForm | undefined)?.core;

/** The texts of a shareable Secret, by its v3 name. */
export const textsOf = (find: FindReferenced) => {
  const named = shareableSecret(find);
  return (name: string): Texts | undefined => {
    const core = named(name);
    return core && textOfSecret(core).data;
  };
};

/** What reads of certificates and of authorities have in common. */
export const datesShape = z.looseObject({
  valid_from: z.string().nullable().describe('RFC 3339'),
  valid_to: z.string().nullable().describe('RFC 3339'),
  days_remaining: z.number().int().nullable(),
  is_expired: z.boolean(),
  serial_number: z.string().nullable(),
});
