import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import type { Gateway } from '../../src/app/gateway.ts'
import { findExclusion } from '../../src/engine/plan/constraints.ts'
import type { Policy } from '../../src/limits/policy-world.ts'
import { mayRetainNothing, retainsNothing, ZDR_GROUPS } from '../../src/limits/zdr.ts'
import { testGateway } from '../support/gateway.ts'

let gateway: Gateway
beforeAll(async () => {
  gateway = await testGateway({ config: {} })
})
afterAll(() => gateway.close())

const zdr = ZDR_GROUPS.filter(({ author }) => author === 'openai')

describe('a call is one of models that retain nothing', () => {
  test.each<[name: string, retains: boolean, mayRetain: boolean]>([
    ['openai/gpt-4o', true, true],
    ['openai/gpt-4o:nitro', true, true],
    ['gpt-4o', true, true],
    ['gpt-4o:floor', true, true],
    ['anthropic/claude-sonnet-4.5', false, false],
    ['claude-sonnet-4.5', false, false],
    ['openrouter/auto', false, true],
    ['gateway/auto:nitro', false, true],
    ['nobody/knows', false, false],
  ])('%s', (name, retains, mayRetain) => {
    const call = { routing: {}, models: ['sandbox/echo', name] }
    expect(retainsNothing(gateway, zdr, call)).toBe(retains)
    expect(mayRetainNothing(gateway, zdr, call)).toBe(mayRetain)
    expect(mayRetainNothing(gateway, undefined, call)).toBe(false)
    const service = { name: 'the search engine exa', provider: 'exa', model: 'exa' }
    const sender = { call: call as never, policy: { rules: [], zdr } as unknown as Policy }
    expect(findExclusion(gateway, sender, service)).toBe(mayRetain ? 'data_policy:zdr' : undefined)
  })
})
