import { expect, test } from 'bun:test'
import { parseConfig } from '../../src/config.ts'
import { restEndpoint } from '../../src/engine/status.ts'
import { getOperator } from '../../src/resources/actor.ts'
import { testGateway } from '../support/gateway.ts'

const at = (model: string) => ({ provider: 'local', model })
const CONFIG = {
  providers: { local: { protocol: 'openai-chat', base_url: 'http://127.0.0.1:9/v1' } },
  models: [
    { id: 'acme/one', endpoints: [at('up')] },
    { id: 'acme/two', endpoints: [at('up'), at('other')] },
  ],
}

test('an endpoint is named as records of calls name it, unless several models have it', async () => {
  const gateway = await testGateway({ config: parseConfig(JSON.stringify(CONFIG), {}) })
  const rest = async (id: string) =>
    (await restEndpoint(gateway, getOperator(gateway), id, 60)).data.endpoint
  expect(await rest('local/other')).toBe('acme/two local/other')
  expect(await rest('acme/one local/up')).toBe('acme/one local/up')
  expect(rest('local/up')).rejects.toThrow(
    'endpoint: expected one, found 2: acme/one local/up, acme/two local/up',
  )
  expect(rest('local/none')).rejects.toThrow('Endpoint not found: expected its id, such as')
  await gateway.close()
})
