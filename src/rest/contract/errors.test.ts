import { describe, expect, test } from 'vitest';
import { HttpError } from '../../http/http-error.ts';
import { ApiError, TransportError } from '../../kube/api-error.ts';
import { DomainError } from '../../rules/errors.ts';
import { errorReply, notFound } from './errors.ts';

const api = (status: number, body: ConstructorParameters<typeof ApiError>[1], retryAfter?: number) =>
  errorReply(new ApiError(status, body, 'update /apis/skerry.dev/v3/namespaces/x/edgenodes/y', retryAfter));

describe('the status and code of the response to', () => {
  test.each<[string, unknown, number, string, string]>([
    ['an HTTP error', notFound('INVALID_NODE_UUID', 'no such node'), 404, 'NotFoundError', 'INVALID_NODE_UUID'],
    ['a domain error', new DomainError(400, 'PORT_RESERVED', 'x'), 400, 'ValidationError', 'PORT_RESERVED'],
    [
      'a taken name',
      new DomainError(409, 'DUPLICATE_NAME', 'x', { name: 'DuplicatePropertyError' }),
      409,
      'DuplicatePropertyError',
      'DUPLICATE_NAME',
    ],
    ['an unknown error', new TypeError('x'), 500, 'InternalError', 'INTERNAL_ERROR'],
    ['a thrown string', 'x', 500, 'InternalError', 'INTERNAL_ERROR'],
    ['a lost connection', new TransportError('lost', 'x'), 503, 'ServiceUnavailableError', 'SERVICE_UNAVAILABLE'],
    ['a deadline', new TransportError('timeout', 'x'), 503, 'ServiceUnavailableError', 'SERVICE_UNAVAILABLE'],
  ])('%s', (_, error, status, name, code) => {
    expect(errorReply(error)).toMatchObject({ status, body: { name, code } });
  });

  test('403 has a member `error` as well, which v3 clients read', () => {
    expect(errorReply(new HttpError(403, 'FORBIDDEN', 'no')).body).toEqual({
      name: 'ForbiddenError',
      message: 'no',
      code: 'FORBIDDEN',
      error: 'Forbidden',
    });
  });
});

describe('the response to a refusal of the API server', () => {
  test.each<[string, number, ConstructorParameters<typeof ApiError>[1], number, string]>([
    ['AlreadyExists', 409, { reason: 'AlreadyExists' }, 409, 'DUPLICATE_NAME'],
    ['Conflict', 409, { reason: 'Conflict' }, 409, 'CONFLICT'],
    ['NotFound', 404, { reason: 'NotFound' }, 404, 'NOT_FOUND'],
    ['too large', 413, { reason: 'RequestEntityTooLarge' }, 400, 'OBJECT_TOO_LARGE'],
    ['too large for etcd', 500, { message: 'etcdserver: request is too large' }, 400, 'OBJECT_TOO_LARGE'],
    ['refused credentials of the controller', 401, { reason: 'Unauthorized' }, 503, 'SERVICE_UNAVAILABLE'],
    [
      'missing permissions of the controller',
      403,
      { reason: 'Forbidden', message: 'User "x" cannot' },
      500,
      'INTERNAL_ERROR',
    ],
    ['an internal error', 500, { message: 'boom' }, 503, 'SERVICE_UNAVAILABLE'],
    [
      'a policy',
      403,
      { reason: 'Forbidden', message: 'admission webhook "x" denied the request: no' },
      400,
      'REFUSED_BY_POLICY',
    ],
  ])('by %s has the status and code for clients', (_, given, body, status, code) => {
    expect(api(given, body)).toMatchObject({ status, body: { code } });
  });

  test('has its Retry-After', () => {
    expect(api(429, {}, 12).headers).toEqual({ 'retry-after': '12' });
  });

  test('for an invalid object is 400 with the field and without the value', () => {
    const causes = [
      {
        reason: 'FieldValueInvalid',
        field: 'spec.microservices[0].container.env[0].value',
        message: 'Invalid value: "hunter2 \\" x": must be shorter',
      },
    ];
    const { status, body } = api(422, { reason: 'Invalid', message: 'hunter2', details: { causes } });
    expect([status, body.message]).toEqual([400, 'microservices[0].container.env[0].value: must be shorter']);
    expect(JSON.stringify(body)).not.toContain('hunter2');
  });

  test.each([
    ['a number', 'Invalid value: 99999: must be lower', 'must be lower'],
    ['no value', 'Invalid value: uuid is immutable: leave it out', 'uuid is immutable: leave it out'],
    ['another text', 'Required value: at the top', 'Required value: at the top'],
  ])('has the reason of a violation with %s', (_, message, said) => {
    const { body } = api(422, { reason: 'Invalid', details: { causes: [{ message }] } });
    expect(body.message).toBe(said);
  });

  test.each([
    ['an object', '{"name":"web","env":[{"key":"A","value":"hunter2: \\"a b\\" }"}]}'],
    ['a list', '["hunter2: x", {"a": "b"}]'],
    ['an incomplete value', '{"a":"hunter2": '],
  ])('by a rule contains nothing of %s', (_, value) => {
    const causes = [
      { field: 'spec.microservices[0]', message: `Invalid value: ${value}: uuid is immutable: once set` },
    ];
    const { status, body } = api(422, { reason: 'Invalid', details: { causes } });
    expect(status).toBe(400);
    expect(body.message).toMatch(/^microservices\[0\]: (uuid is immutable: once set|has a value that is not valid)$/);
  });

  test('by a policy does not contain the path of the request to the API server', () => {
    const { body } = api(422, {
      reason: 'Invalid',
      message: 'ValidatingAdmissionPolicy x denied request: it is in use',
    });
    expect(body.message).toBe('ValidatingAdmissionPolicy x denied request: it is in use');
  });
});
