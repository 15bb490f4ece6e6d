import { beforeEach, describe, expect, test } from 'bun:test'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type Gateway, openGateway } from '../../src/app/gateway.ts'
import { assignKeys, assignMembers, unassignKeys } from '../../src/limits/assignments.ts'
import { getPolicy } from '../../src/limits/effective.ts'
import type { FilterSet } from '../../src/limits/filters/filter-set.ts'
import type { NewGuardrail } from '../../src/limits/guardrails/schema.ts'
import { createGuardrail, deleteGuardrail, updateGuardrail } from '../../src/limits/guardrails.ts'
import type { Policy, Rule } from '../../src/limits/policy-world.ts'
import { type Actor, getOperator } from '../../src/resources/actor.ts'
import { getDefaultGuardrailId } from '../../src/resources/default-guardrail.ts'
import { createKey, updateKey } from '../../src/resources/keys.ts'
import { addMember } from '../../src/resources/members.ts'
import { createOtherWorkspace, testGateway } from '../support/gateway.ts'

const OTHER = '019aa000-0000-7000-8000-0000000000aa'

let gateway: Gateway
let ada: string
let actor: Actor

beforeEach(async () => {
  gateway = await testGateway()
  ada = (await addMember(gateway, getOperator(gateway), { email: 'ada@example.com' })).id
  actor = await actorOf({ creator_user_id: ada })
})

async function actorOf(more: object = {}, of = gateway): Promise<Actor> {
  const { data } = await createKey(of, getOperator(of), { name: 'k', ...more })
  return {
    kind: 'inference',
    user_id: data.creator_user_id ?? '',
    workspace_id: data.workspace_id,
    key_hash: data.hash,
  }
}

const create = async (more: Partial<NewGuardrail>) =>
  (await createGuardrail(gateway, getOperator(gateway), { name: 'rules', ...more })).data.id
const setDefault = (more: object) =>
  updateGuardrail(
    gateway,
    getOperator(gateway),
    getDefaultGuardrailId(gateway.memory.owner.workspace_id),
    more,
  )

const giveKey = (id: string, { key_hash }: Actor) =>
  assignKeys(gateway, getOperator(gateway), id, { key_hashes: [key_hash ?? ''] })
const giveMember = (id: string, user_id: string) =>
  assignMembers(gateway, getOperator(gateway), id, { member_user_ids: [user_id] })
const fields = (of = actor) => getPolicy(gateway, of).rules.map(rule => rule.field)

describe('the guardrails that apply', () => {
  test('none where none is assigned', async () => {
    await create({
      ignored_providers: ['azure'],
      allowed_data_regions: ['us'],
      limit_usd: 1,
      reset_interval: 'daily',
    })
    expect(getPolicy(gateway, actor)).toEqual({
      bounds: [],
      rules: [],
      regions: ['global', 'europe', 'us'],
    })
  })

  test('a workspace’s default for its keys, a member’s for theirs, a key’s own', async () => {
    await setDefault({ ignored_providers: ['azure'] })
    await giveMember(await create({ ignored_models: ['openai/gpt-4o'] }), ada)
    await giveKey(await create({ enforce_zdr_openai: true }), actor)
    const [sister, stranger] = [await actorOf({ creator_user_id: ada }), await actorOf()]
    expect(fields()).toEqual(['ignored_providers', 'ignored_models', 'enforce_zdr_openai'])
    expect(fields(sister)).toEqual(['ignored_providers', 'ignored_models'])
    expect(fields(stranger)).toEqual(['ignored_providers'])
  })

  test('a member’s for their keys in every workspace, a default only in its own', async () => {
    await createOtherWorkspace(gateway, OTHER)
    await setDefault({ ignored_providers: ['azure'] })
    await giveMember(await create({ ignored_models: ['openai/gpt-4o'] }), ada)
    expect(fields(await actorOf({ creator_user_id: ada, workspace_id: OTHER }))).toEqual([
      'ignored_models',
    ])
  })

  test('one that is assigned twice applies once', async () => {
    const id = await create({ ignored_providers: ['azure'] })
    await giveMember(id, ada)
    await giveKey(id, actor)
    expect(fields()).toEqual(['ignored_providers'])
  })
})

describe('their combination', () => {
  test('allows the regions that all allow', async () => {
    await setDefault({ allowed_data_regions: ['europe', 'us'] })
    expect(getPolicy(gateway, actor).regions).toEqual(['europe', 'us'])
    await giveKey(await create({ allowed_data_regions: ['us', 'global'] }), actor)
    expect(getPolicy(gateway, actor).regions).toEqual(['us'])
    await giveMember(await create({ allowed_data_regions: ['europe'] }), ada)
    expect(getPolicy(gateway, actor).regions).toEqual([])
  })

  test('has a bound for every budget, with the account that it counts', async () => {
    await updateKey(gateway, getOperator(gateway), actor.key_hash ?? '', { limit: 9 })
    await setDefault({ limit_usd: 500, reset_interval: 'monthly', include_byok_in_budgets: true })
    await giveMember(await create({ limit_usd: 0.075, reset_interval: 'weekly' }), ada)
    await giveKey(await create({ limit_usd: 5, reset_interval: 'daily' }), actor)
    const message = (said: string) => `Guardrail ${said} exceeded. Contact your org admin.`
    expect(getPolicy(gateway, actor).bounds).toEqual([
      {
        account: `key ${actor.key_hash}`,
        period: null,
        limit: 9_000_000_000n,
        byok: false,
        message: 'Key limit exceeded (total limit)',
      },
      {
        account: `workspace ${gateway.memory.owner.workspace_id}`,
        period: 'monthly',
        limit: 500_000_000_000n,
        byok: true,
        message: message('monthly budget of $500.00'),
      },
      {
        account: `member ${ada}`,
        period: 'weekly',
        limit: 75_000_000n,
        byok: false,
        message: message('weekly budget of $0.075'),
      },
      {
        account: `key ${actor.key_hash}`,
        period: 'daily',
        limit: 5_000_000_000n,
        byok: false,
        message: message('daily budget of $5.00'),
      },
    ])
  })

  test('has every filter, with its guardrail and whether answers are scanned', async () => {
    await setDefault({ content_filter_builtins: [{ slug: 'email', action: 'flag' }] })
    const id = await create({
      content_filters: [{ pattern: 'a+', action: 'block', label: 'A' }],
      filterOutput: true,
    })
    await giveKey(id, actor)
    const filters = await getPolicy(gateway, actor).filters
    const told = (screen?: FilterSet | null) =>
      screen?.rules.map(({ guardrail_id, scope, filter, action }) => [
        guardrail_id,
        scope,
        filter,
        action,
      ])
    const [ofDefault, ofKey] = [
      [getDefaultGuardrailId(gateway.memory.owner.workspace_id), 'workspace', 'email', 'flag'],
      [id, 'key', 'A', 'block'],
    ]
    expect(told(filters?.getInputFilters('user'))).toEqual([ofDefault, ofKey])
    expect(told(filters?.outputFilters)).toEqual([ofKey])
  })
})

test('an actor without a key gets the rules of their own workspace only', async () => {
  await setDefault({ ignored_providers: ['azure'] })
  const keyless = { ...getOperator(gateway), key_hash: null }
  expect(fields(keyless)).toEqual(['ignored_providers'])
  expect(fields({ ...keyless, workspace_id: OTHER })).toEqual([])
  expect(fields(keyless)).toEqual(['ignored_providers'])
})

describe('is built once', () => {
  test('and again after every change of its parts', async () => {
    const policies = [getPolicy(gateway, actor)]
    expect(getPolicy(gateway, actor)).toBe(policies[0] as Policy)
    const changed = async (change: () => unknown) => {
      await change()
      const policy = getPolicy(gateway, actor)
      expect(policies).not.toContain(policy)
      expect(getPolicy(gateway, actor)).toBe(policy)
      policies.push(policy)
    }
    let id = ''
    await changed(async () => {
      id = await create({ ignored_providers: ['azure'] })
    })
    await changed(() => giveKey(id, actor))
    await changed(() =>
      updateGuardrail(gateway, getOperator(gateway), id, { ignored_providers: ['openai'] }),
    )
    await changed(() =>
      updateKey(gateway, getOperator(gateway), actor.key_hash ?? '', { limit: 1 }),
    )
    await changed(() =>
      unassignKeys(gateway, getOperator(gateway), id, { key_hashes: [actor.key_hash ?? ''] }),
    )
    await changed(() => giveMember(id, ada))
    await changed(() => setDefault({ allowed_data_regions: ['us'] }))
    await changed(() => deleteGuardrail(gateway, getOperator(gateway), id))
    expect(fields()).toEqual([])
  })

  test('builds the rules once for a guardrail, not for each key', async () => {
    await setDefault({ allowed_models: ['sandbox/echo'] })
    const [mine, theirs] = [getPolicy(gateway, actor), getPolicy(gateway, await actorOf())]
    expect(mine.rules).toHaveLength(1)
    expect(mine.rules[0]).toBe(theirs.rules[0] as Rule)
  })

  test('and again when another process changed it', async () => {
    const data = mkdtempSync(join(tmpdir(), 'gateway-test-'))
    const server = await openGateway({ data })
    const key = await actorOf({}, server)
    expect(getPolicy(server, key).rules).toEqual([])
    const terminal = await openGateway({ data })
    await updateGuardrail(
      terminal,
      getOperator(terminal),
      getDefaultGuardrailId(terminal.memory.owner.workspace_id),
      {
        allowed_models: ['sandbox/echo'],
      },
    )
    await server.catchUp()
    expect(getPolicy(server, key).rules.map(rule => rule.field)).toEqual(['allowed_models'])
    await Promise.all([server.close(), terminal.close()])
    rmSync(data, { recursive: true })
  })
})
