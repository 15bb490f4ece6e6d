import { expect, test } from 'bun:test'
import { getOrganizationId } from '../../src/resources/organization.ts'
import { createApi } from '../support/api.ts'
import { createTestKeys, testGateway } from '../support/gateway.ts'

test('the organization id is derived from the owner’s id', async () => {
  const gateway = await testGateway()
  expect(getOrganizationId(gateway)).toMatch(/^org_\w{32}$/)
  expect(getOrganizationId(gateway).slice(4)).toBe(gateway.memory.owner.user_id.slice(5))
})

test('each key shows the organization that it belongs to', async () => {
  const gateway = await testGateway()
  const { management, inference } = await createTestKeys(gateway)
  const ask = createApi(gateway, inference)
  for (const key of [management, inference])
    expect((await ask('GET', '/key', { key })).json.data.organization_id).toBe(
      getOrganizationId(gateway),
    )
})
