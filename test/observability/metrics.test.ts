import { expect, test } from 'bun:test'
import manifest from '../../package.json' with { type: 'json' }
import { GatewayError } from '../../src/base/errors.ts'
import type { Generation } from '../../src/observability/generations/store.ts'
import { openMetrics } from '../../src/observability/metrics.ts'
import { testGateway } from '../support/gateway.ts'
import { buildGeneration } from '../support/generation.ts'

test('a provider’s name cannot break the line of a label', async () => {
  const name = 'a\\b"c\nd'
  const provider = { protocol: 'openai-chat', base_url: 'http://127.0.0.1:9/v1', api_key: 'mock' }
  const models = [{ id: 'acme/small', endpoints: [{ provider: name, model: 'up' }] }]
  const gateway = await testGateway({ config: { providers: { [name]: provider }, models } })
  const metrics = openMetrics(gateway)
  const [endpoint] = gateway.catalog.models.get('acme/small')?.endpoints ?? []
  if (!endpoint) throw new Error('There is an endpoint')
  gateway.events.publish('attempt.failed', {
    ...{ id: 'gen-1', workspace_id: 'w', endpoint, status: null, request_id: null, latency: 1 },
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

test('the version and each model that is known have labels, within a bound', async () => {
  const gateway = await testGateway()
  const metrics = openMetrics(gateway)
  const finish = (model: string, more: Partial<Generation> = {}) =>
    gateway.events.publish('generation.finished', buildGeneration({ model, ...more }))
  finish('sandbox/echo')
  finish('sandbox/echo', { error_type: 'timeout' })
  finish('a-caller/chose-this')
  const linesOf = (name: string) =>
    metrics
      .renderText()
      .split('\n')
      .filter(line => line.startsWith(name))
  expect(linesOf('gateway_build_info')).toEqual([
    `gateway_build_info{version="${manifest.version}",bun="${Bun.version}"} 1`,
  ])
  expect(linesOf('gateway_calls_total')).toEqual([
    'gateway_calls_total{provider="Local",model="sandbox/echo",status="200"} 1',
    'gateway_calls_total{provider="Local",model="sandbox/echo",status="524"} 1',
    'gateway_calls_total{provider="other",model="other",status="200"} 1',
  ])
  expect(linesOf('gateway_model_tokens_total{provider="Local"')).toEqual([
    'gateway_model_tokens_total{provider="Local",model="sandbox/echo",direction="input"} 20',
    'gateway_model_tokens_total{provider="Local",model="sandbox/echo",direction="output"} 10',
  ])
  expect(linesOf('gen_ai_client_operation_duration_seconds_count')).toEqual([
    'gen_ai_client_operation_duration_seconds_count{gen_ai_operation_name="chat",gen_ai_provider_name="Local",gen_ai_request_model="sandbox/echo",error_type=""} 1',
    'gen_ai_client_operation_duration_seconds_count{gen_ai_operation_name="chat",gen_ai_provider_name="Local",gen_ai_request_model="sandbox/echo",error_type="timeout"} 1',
    'gen_ai_client_operation_duration_seconds_count{gen_ai_operation_name="chat",gen_ai_provider_name="other",gen_ai_request_model="other",error_type=""} 1',
  ])
  const buckets = linesOf('gen_ai_client_token_usage_bucket').filter(
    line => line.includes('"Local"') && line.includes('"output"'),
  )
  // Two calls of 5 tokens each.
  expect(buckets.map(line => Number(line.split(' ').at(-1)))).toEqual([
    0,
    0,
    ...Array.from({ length: 13 }, () => 2),
  ])
  for (let i = 0; i < 1_000; i++) finish('sandbox/echo', { provider_name: `P${i}` })
  expect(linesOf('gateway_model_cost_usd_total').length).toBe(501)
})
