import { describe, expect, test } from 'bun:test'
import { reconfigure } from '../../src/app/reconfigure.ts'
import { parseConfig } from '../../src/config.ts'
import { startRun } from '../../src/engine/infer.ts'
import { resolvePluginOptions } from '../../src/extensions/plugin-defaults.ts'
import { getOperator } from '../../src/resources/actor.ts'
import { buildTextCall } from '../support/call.ts'
import { testGateway } from '../support/gateway.ts'

const resolve = async (plugins: object, own?: Record<string, unknown>) => {
  const gateway = await testGateway({ config: { plugins } })
  const call = buildTextCall(own ? { plugins: own } : {})
  return resolvePluginOptions(gateway, startRun(gateway, getOperator(gateway), 'text', call))
}

const HEALING = { id: 'response-healing' }
const OFF = { id: 'context-compression', enabled: false }

describe('the plugins of calls that do not name them', () => {
  test('are those of the config', async () => {
    expect(await resolve({})).toBeUndefined()
    expect(await resolve({ defaults: [HEALING, OFF] })).toEqual({
      'response-healing': {},
      'context-compression': null,
    })
  })

  test('are replaced and switched off by entries of the call', async () => {
    const own = { 'response-healing': null, 'context-compression': { engine: 'middle-out' } }
    expect(await resolve({ defaults: [HEALING, OFF] }, own)).toEqual(own)
  })

  test('stay if overrides are prevented', async () => {
    const own = { 'response-healing': null, 'context-compression': { engine: 'middle-out' } }
    const plugins = { defaults: [HEALING, OFF], prevent_overrides: ['response-healing'] }
    expect(await resolve(plugins, own)).toEqual({ ...own, 'response-healing': {} })
  })

  test('of a workspace replace those of all', async () => {
    const workspaces = { default: { defaults: [OFF] }, other: { defaults: [] } }
    expect(await resolve({ defaults: [HEALING], workspaces })).toEqual({
      'context-compression': null,
    })
    expect(await resolve({ defaults: [HEALING], workspaces: { default: {} } })).toBeUndefined()
    expect(await resolve({ workspaces: { other: { defaults: [HEALING] } } })).toBeUndefined()
  })

  test.each([
    [{ defaults: [{ id: 'tea' }] }, 'plugins.defaults.0.id: expected one of web'],
    [{ defaults: [{ id: 'web', engine: 'exa' }] }, 'plugins.defaults.0.engine: expected native'],
    [
      { defaults: [{ id: 'file-parser', pdf: { engine: 'x' } }] },
      'plugins.defaults.0.pdf.engine: expected',
    ],
    [{ defaults: [{ id: 'moderation' }] }, 'plugins.defaults.0.id: this gateway has no provider'],
    [
      { workspaces: { a: { defaults: [{ id: 'auto-router', cost_tier: 7 }] } } },
      'plugins.workspaces.a.defaults.0.cost_tier: expected',
    ],
    [
      { defaults: [HEALING], prevent_overrides: ['web'] },
      'plugins.prevent_overrides.0: expected a plugin of the defaults, found web',
    ],
  ])('%j is refused when the gateway starts and when it is reconfigured', async (plugins, why) => {
    await expect(testGateway({ config: { plugins } })).rejects.toThrow(why)
    const gateway = await testGateway()
    const config = parseConfig(JSON.stringify({ plugins }), {})
    await expect(reconfigure(gateway, config)).rejects.toThrow(why)
    expect(gateway.config.plugins.defaults).toBeUndefined()
  })
})
