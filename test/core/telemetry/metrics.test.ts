import { expect, test } from 'bun:test'
import { GatewayError } from '../../../src/core/errors.ts'
import { openMetrics } from '../../../src/core/telemetry/metrics.ts'
import { testGateway } from '../../support/gateway.ts'

test('a provider’s name cannot break the line of a label', async () => {
  const name = 'a\\b"c\nd'
  const provider = { protocol: 'openai-chat', base_url: 'http://127.0.0.1:9/v1', api_key: 'mock' }
  const models = [{ id: 'acme/small', endpoints: [{ provider: name, model: 'up' }] }]
  const gateway = await testGateway({ config: { providers: { [name]: provider }, models } })
  const metrics = openMetrics(gateway)
  const [endpoint] = gateway.catalog.models.get('acme/small')?.endpoints ?? []
  if (!endpoint) throw new Error('There is an endpoint')
  gateway.events.publish('attempt.failed', {
    ...{ id: 'gen-1', endpoint, status: null, request_id: null },
    error: new GatewayError('server', 'x'),
  })
  gateway.events.publish('tools.judged', { endpoint, toolCallsValid: true })
  gateway.events.publish('hedge.started', { endpoint })
  gateway.events.publish('hedge.won', { endpoint })
  const lines = metrics.renderText().split('\n')
  expect(
    lines.filter(line => line.includes('provider=')).map(line => line.replace(/,.*(?=} )/, '')),
  ).toEqual(
    ['attempts_failed', 'hedges', 'hedge_wins', 'tool_answers'].map(
      of => `gateway_${of}_total{provider="a\\\\b\\"c\\nd"} 1`,
    ),
  )
})
