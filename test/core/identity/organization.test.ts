import { expect, test } from 'bun:test'
import { organizationId } from '../../../src/core/identity/organization.ts'
import { apiOf } from '../../support/api.ts'
import { testGateway, testKeys } from '../../support/gateway.ts'

test('the organization id is derived from the owner’s id', async () => {
  const gateway = await testGateway()
  expect(organizationId(gateway)).toMatch(/^org_\w{32}$/)
  expect(organizationId(gateway).slice(4)).toBe(gateway.memory.owner.user_id.slice(5))
})

test('each key shows the organization that it belongs to', async () => {
  const gateway = await testGateway()
  const { management, inference } = await testKeys(gateway)
  const ask = apiOf(gateway, inference)
  for (const key of [management, inference])
    expect((await ask('GET', '/key', { key })).json.data.organization_id).toBe(
      organizationId(gateway),
    )
})
