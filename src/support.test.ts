import { expect, test } from 'vitest';
import { testConfig } from '../testing/test-config.ts';
import { supportDocument } from './support.ts';

test('the support document names the installation, its control plane and the labels of what it makes in the cluster', async () => {
  const config = testConfig('', 'plant', {
    CONTROLLER_NAME: 'plant-3',
    CONTROL_PLANE: 'Remote',
    APP_LABEL: 'edge',
    COMPONENT_LABEL_DOMAIN: 'plant.example',
  });
  const document = await supportDocument(config, { list: async () => ({ items: [], resourceVersion: '1' }) }, {});
  expect(document).toMatchObject({
    about: {
      namespace: 'plant',
      installation: 'plant-3',
      controlPlane: 'remote',
      labels: { 'app.kubernetes.io/name': 'edge', component: 'plant.example/component' },
    },
    settings: { installation: { name: 'plant-3' }, controlPlane: 'remote' },
  });
});
