import { z } from 'zod';
import { HttpError } from '../../../http/http-error.ts';
import type { InteractionAction } from '../../../identity/contract/interactions.ts';
import type { RestDependencies } from '../../../rest/contract/dependencies.ts';
import { embeddedDoor } from '../../../rest/contract/identity-door.ts';
import { type AnyRoute, grouped, route } from '../../../rest/contract/route.ts';
import { lateBody, readLateBody } from './body.ts';
import { contextOf, deviceCookie } from './device.ts';

const params = z.object({ uid: z.string().min(1).max(128) });
const text = z.string().min(1);
const code = z.string().min(1).max(64);
const step = z.enum(['login', 'mfa', 'enroll', 'confirm-enroll', 'change-password', 'complete']);

const BODIES = {
  login: z.object({ email: text, password: text }),
  mfa: z.object({ code }),
  enroll: z.object({}),
  'confirm-enroll': z.object({ code }),
  'change-password': z.object({ newPassword: text, currentPassword: text.optional() }),
  complete: z.object({}),
} satisfies Record<InteractionAction['to'], z.ZodType>;

function interactionsOf(deps: RestDependencies) {
  const { interactions } = embeddedDoor(deps);
  if (interactions) return interactions;
  throw new HttpError(501, 'NOT_IMPLEMENTED', 'this controller has no logins in the browser');
}

/** A step of a login in the browser, which answers to the uid of the interaction alone. */
const stepRoute = (
  to: InteractionAction['to'],
  operation: string,
  summary: string,
  answers: z.ZodRawShape = {},
): AnyRoute =>
  route({
    method: 'POST',
    path: `/user/interaction/{uid}/${to}`,
    operation,
    summary,
    access: 'public',
    guessable: true,
    params,
    body: lateBody(BODIES[to]),
    reply: { status: 200, schema: z.object({ step, ...answers }) },
    errors: [400, 401, 501],
    async handler({ deps, params: { uid }, body, client, headers, signal }) {
      const interactions = interactionsOf(deps);
      const action = { ...readLateBody(BODIES[to], body), to } as InteractionAction;
      const { device, ...reply } = await interactions.act(uid, client.cookie, action, contextOf(client), signal);
      const { urls } = embeddedDoor(deps);
      if (device !== undefined && urls) headers['set-cookie'] = deviceCookie(device, urls);
      return reply;
    },
  });

export const interactionRoutes = grouped('User', [
  route({
    method: 'GET',
    path: '/user/interaction/{uid}',
    operation: 'getInteraction',
    summary: 'The next step of a login in the browser',
    access: 'public',
    params,
    reply: { status: 200, schema: z.object({ step }) },
    errors: [401, 501],
    handler: ({ deps, params: { uid }, signal }) => interactionsOf(deps).status(uid, signal),
  }),
  stepRoute('login', 'loginInInteraction', 'Log in with e-mail address and password'),
  stepRoute('mfa', 'sendCodeInInteraction', 'Send a code of the second factor, or a recovery code'),
  stepRoute('enroll', 'enrollInInteraction', 'Begin to enrol a second factor', {
    secret: z.string(),
    otpauthUrl: z.string(),
  }),
  stepRoute('confirm-enroll', 'confirmEnrolmentInInteraction', 'Enable the second factor by its first code', {
    recoveryCodes: z.array(z.string()),
  }),
  stepRoute('change-password', 'changePasswordInInteraction', 'Replace a temporary password'),
  stepRoute('complete', 'completeInteraction', 'End the login in the browser that began it', {
    redirectTo: z.string(),
  }),
]);
