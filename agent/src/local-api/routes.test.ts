import { expect, test } from 'vitest';
import { localApi } from './routes.ts';

const { find } = localApi({ agent: {} } as never);

/** The operation of a request, or the code of the error. */
function found(method: string, path: string): string {
  try {
    return find(method, path).route.operation;
  } catch (error) {
    return (error as { code: string }).code;
  }
}

const REQUESTS: Record<string, string> = {
  'GET /health/live': 'isAlive',
  'GET /v1/health/live': 'isAlive',
  'GET /v1/metrics': 'getMetrics',
  'GET /v1/microservices': 'listMicroservices',
  'POST /v1/microservices/web/stop': 'stopMicroservice',
  'GET /v1/microservices/config': 'getOwnConfig',
  'GET /v1/microservices/control': 'openControlChannel',
  // These two names are reserved in the other spelling alone.
  'GET /v1/ms/config': 'getMicroservice',
  'POST /v1/ms/control/stop': 'stopMicroservice',
  'DELETE /v1/microservices/config': 'METHOD_NOT_ALLOWED',
  'GET /v1/models:prune': 'METHOD_NOT_ALLOWED',
  'DELETE /v1/models/x': 'removeModel',
  'GET /v1/deploy/runtimeclasses:delete/x': 'getRuntimeClassRemoval',
  'POST /v1/deploy/controlplane:apply': 'applyControlPlane',
  'GET /v1/ms/': 'NOT_FOUND',
  'GET /v1//ms': 'NOT_FOUND',
  'GET /v1/imagesx': 'NOT_FOUND',
  'GET /v1/ms/%zz': 'INVALID_ARGUMENT',
  'GET /v1/images': 'listImages',
  'DELETE /v1/images/a/b': 'NOT_FOUND',
  'GET /v1/images:pull': 'METHOD_NOT_ALLOWED',
  'GET /v1/images:pull/x': 'getImagePull',
  'GET /v1/images:load/x': 'getImageLoad',
  'POST /v1/volumes:prune': 'pruneVolumes',
  'GET /v1/volumes/shared/x': 'getSharedVolume',
  'DELETE /v1/volumes/shared': 'destroyVolume',
  'GET /v1/volumes/x': 'METHOD_NOT_ALLOWED',
  'POST /v1/knowledge:pull': 'pullKnowledge',
  'POST /v1/system/controller/x': 'NOT_FOUND',
  'GET /v1/system/controller': 'getController',
  'DELETE /v1/system/controller': 'METHOD_NOT_ALLOWED',
  'DELETE /v1/system/controlplane': 'deleteControlPlane',
  'POST /v1/system/config/switch': 'switchProfile',
  'POST /v1/system/controller/cert': 'installControllerCertificate',
  'POST /v1/ms/web/exec/sessions': 'createExecSession',
  'GET /v1/microservices/web/exec/sessions/1': 'getExecSession',
  'GET /v1/ms/web/exec/sessions/1:attach': 'attachExecSession',
  'GET /v1/ms/web/exec/sessions/:attach': 'getExecSession',
  'DELETE /v1/ms/web/exec/sessions/1:attach': 'METHOD_NOT_ALLOWED',
  'GET /v1/microservices/web/logs:stream': 'streamMicroserviceLogs',
  'GET /v1/system/logs:stream': 'streamLogs',
  'GET /v1/auth/tokens/x': 'NOT_FOUND',
};
for (const [request, answer] of Object.entries(REQUESTS))
  test(`the local API answers ${request} with ${answer}`, () => {
    const [method = '', path = ''] = request.split(' ');
    expect(found(method, path)).toBe(answer);
  });
