import { afterEach, beforeEach, describe, expect, test } from 'bun:test'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type Gateway, openGateway } from '../../src/app/gateway.ts'
import { type Actor, getOperator, identify } from '../../src/resources/actor.ts'
import { createKey, updateKey } from '../../src/resources/keys.ts'
import {
  addMember,
  deactivateMember,
  getMember,
  updateMember,
} from '../../src/resources/members.ts'
import { readRefusalStatus, readTrail } from '../support/api.ts'
import { buildAuditEntry } from '../support/audit.ts'
import { createCountedIds, TestClock } from '../support/gateway.ts'
import { removeWorkspaceMember, setWorkspaceMember } from '../support/workspace-members.ts'

let data: string
let clock: TestClock
let gateway: Gateway
let actor: Actor

beforeEach(async () => {
  data = mkdtempSync(join(tmpdir(), 'gateway-test-'))
  clock = new TestClock()
  gateway = await openGateway({ data, clock, ids: createCountedIds() })
  actor = getOperator(gateway)
})

afterEach(async () => {
  await gateway.close()
  rmSync(data, { recursive: true, force: true })
})

const trail = () => readTrail(data)

const ada = () => addMember(gateway, actor, { email: 'ada@acme.example', first_name: 'Ada' })
const keyOf = (creator_user_id: string) =>
  createKey(gateway, actor, { name: 'ci', creator_user_id })

describe('the organization', () => {
  test('has its owner from the start, and keeps changes of them', async () => {
    const { user_id } = gateway.memory.owner
    expect(await gateway.store.members.list(0, 10)).toEqual([
      {
        ...{
          id: user_id,
          email: 'owner@localhost',
          first_name: null,
          last_name: null,
          role: 'org:admin',
          active: true,
        },
        ...{ created_at: '2026-03-04T05:06:07.000Z', updated_at: null },
      },
    ])
    await updateMember(gateway, actor, user_id, { email: 'me@acme.example' })
    const again = await openGateway({ data })
    expect((await getMember(again, user_id)).email).toBe('me@acme.example')
    await again.close()
  })

  test('accepts one active member per address, and again after they left', async () => {
    const member = await ada()
    expect(member).toEqual({
      ...{
        id: expect.stringMatching(/^user_[0-9a-f]{32}$/),
        email: 'ada@acme.example',
        first_name: 'Ada',
        last_name: null,
      },
      ...{
        role: 'org:member',
        active: true,
        created_at: '2026-03-04T05:06:07.000Z',
        updated_at: null,
      },
    })
    expect(await getMember(gateway, member.id)).toEqual(member)
    expect(await readRefusalStatus(addMember(gateway, actor, { email: 'ADA@acme.example' }))).toBe(
      409,
    )
    await deactivateMember(gateway, actor, member.id)
    const next = await ada()
    expect(await readRefusalStatus(updateMember(gateway, actor, member.id, { active: true }))).toBe(
      409,
    )
    expect(await gateway.store.members.count()).toBe(2)
    expect(trail()).toEqual([
      `members.create ${member.id}`,
      `members.deactivate ${member.id}`,
      `members.create ${next.id}`,
    ])
  })

  test('changes only what is named', async () => {
    const member = await ada()
    clock.pass(1_000)
    const changed = await updateMember(gateway, actor, member.id, {
      first_name: null,
      role: 'org:admin',
    })
    expect(changed).toEqual({
      ...member,
      first_name: null,
      role: 'org:admin',
      updated_at: '2026-03-04T05:06:08.000Z',
    })
    expect(await getMember(gateway, member.id)).toEqual(changed)
    expect(
      await readRefusalStatus(updateMember(gateway, actor, 'nobody', { role: 'org:admin' })),
    ).toBe(404)
  })

  test('cannot be managed by keys of one workspace only', async () => {
    const member = await ada()
    const elsewhere: Actor = {
      ...actor,
      kind: 'management',
      workspace_id: 'elsewhere',
      key_hash: 'h',
    }
    expect(
      await readRefusalStatus(addMember(gateway, elsewhere, { email: 'b@acme.example' })),
    ).toBe(403)
    expect(
      await readRefusalStatus(updateMember(gateway, elsewhere, member.id, { role: 'org:admin' })),
    ).toBe(403)
    expect(await readRefusalStatus(deactivateMember(gateway, elsewhere, member.id))).toBe(403)
  })
})

describe('a leaving member', () => {
  test('loses all their keys and no others, which stay disabled if they return', async () => {
    const member = await ada()
    const [his, disabled, other] = [
      await keyOf(member.id),
      await keyOf(member.id),
      await keyOf(gateway.memory.owner.user_id),
    ]
    await updateKey(gateway, actor, disabled.data.hash, { disabled: true })
    const before = trail().length
    await deactivateMember(gateway, actor, member.id)
    expect(trail().slice(before)).toEqual([
      `keys.update ${his.data.hash}`,
      `members.deactivate ${member.id}`,
    ])
    expect(await readRefusalStatus(identify(gateway, `Bearer ${his.key}`))).toBe(401)
    expect((await identify(gateway, `Bearer ${other.key}`)).kind).toBe('inference')
    expect((await updateMember(gateway, actor, member.id, { active: true })).active).toBe(true)
    const again = await openGateway({ data })
    expect(again.memory.keys.get(his.data.hash)?.disabled).toBe(true)
    expect(gateway.memory.keys.get(his.data.hash)?.disabled).toBe(true)
    await again.close()
  })

  test('loses keys that another process has just created', async () => {
    const member = await ada()
    const terminal = await openGateway({ data })
    const { data: made } = await createKey(terminal, getOperator(terminal), {
      name: 'late',
      creator_user_id: member.id,
    })
    await deactivateMember(gateway, actor, member.id)
    await terminal.catchUp()
    expect([
      gateway.memory.keys.get(made.hash)?.disabled,
      terminal.memory.keys.get(made.hash)?.disabled,
    ]).toEqual([true, true])
    await terminal.close()
  })

  test('leaves also while they go on making keys, all of which they lose', async () => {
    const member = await ada()
    const terminal = await openGateway({ data })
    const { catchUp } = gateway
    const made: string[] = []
    gateway.catchUp = async () => {
      const changed = await catchUp()
      const input = { name: 'late', creator_user_id: member.id }
      if (made.length < 5)
        made.push((await createKey(terminal, getOperator(terminal), input)).data.hash)
      return changed
    }
    await deactivateMember(gateway, actor, member.id)
    expect(made.map(hash => gateway.memory.keys.get(hash)?.disabled)).toEqual(Array(5).fill(true))
    await terminal.close()
  })

  test('leaves once, and the owner never', async () => {
    const member = await ada()
    const left = await deactivateMember(gateway, actor, member.id)
    clock.pass(1_000)
    expect(await deactivateMember(gateway, actor, member.id)).toEqual(left)
    expect(
      await readRefusalStatus(deactivateMember(gateway, actor, gateway.memory.owner.user_id)),
    ).toBe(400)
    expect(await readRefusalStatus(deactivateMember(gateway, actor, 'nobody'))).toBe(404)
  })

  test('stays, with their keys, if one of their keys was created unseen', async () => {
    const member = await ada()
    const { data: made } = await keyOf(member.id)
    const keys = { hashes: [], updated_at: '2026-03-05T00:00:00.000Z', entries: [] }
    expect(
      await readRefusalStatus(gateway.store.members.deactivate(member.id, keys, buildAuditEntry())),
    ).toBe(409)
    expect([
      (await getMember(gateway, member.id)).active,
      [...(await gateway.store.keys.all())].find(one => one.hash === made.hash)?.disabled,
    ]).toEqual([true, false])
  })
})

describe('a membership in a workspace', () => {
  const here = () => gateway.memory.owner.workspace_id
  const set = (id: string, role: 'admin' | 'member', source: 'manual' | 'scim') =>
    setWorkspaceMember(gateway, actor, here(), id, role, source)
  const kept = () => gateway.store.members.listInWorkspace(here())

  test('is created once, changed in its role, and deleted', async () => {
    const { id } = await ada()
    const made = await set(id, 'member', 'scim')
    expect(made).toEqual({
      ...{
        id: expect.any(String),
        workspace_id: here(),
        user_id: id,
        role: 'member',
        source: 'scim',
      },
      created_at: '2026-03-04T05:06:07.000Z',
    })
    expect(await set(id, 'member', 'scim')).toEqual(made)
    const changed = await set(id, 'admin', 'scim')
    expect(changed).toEqual({ ...made, role: 'admin' })
    expect(await kept()).toEqual([changed])
    expect(await removeWorkspaceMember(gateway, actor, here(), id)).toBe(true)
    expect(await removeWorkspaceMember(gateway, actor, here(), id)).toBe(false)
    expect(await kept()).toEqual([])
    expect(trail().slice(1)).toEqual([
      `workspace_members.add ${id}`,
      `workspace_members.update ${id}`,
      `workspace_members.remove ${id}`,
    ])
  })

  test('by hand is not changed by a mapping, and one of a mapping can be made manual', async () => {
    const { id } = await ada()
    const made = await set(id, 'admin', 'manual')
    expect(await set(id, 'member', 'scim')).toEqual(made)
    const { id: other } = await addMember(gateway, actor, { email: 'b@acme.example' })
    await set(other, 'member', 'scim')
    expect((await set(other, 'member', 'manual')).source).toBe('manual')
    expect((await kept()).map(one => [one.role, one.source])).toEqual([
      ['admin', 'manual'],
      ['member', 'manual'],
    ])
  })

  test('exists only while the member is in the organization', async () => {
    const { id } = await ada()
    await set(id, 'member', 'manual')
    await deactivateMember(gateway, actor, id)
    expect(await kept()).toEqual([])
    await updateMember(gateway, actor, id, { active: true })
    expect(await kept()).toHaveLength(1)
  })

  test('is changed by one of two simultaneous requests, and the other gets an error', async () => {
    const { id } = await ada()
    const other = await openGateway({ data })
    const made = await set(id, 'member', 'scim')
    const byOther = setWorkspaceMember(other, getOperator(other), here(), id, 'admin', 'scim')
    const byUs = removeWorkspaceMember(gateway, actor, here(), id)
    const outcomes = await Promise.all([readRefusalStatus(byOther), readRefusalStatus(byUs)])
    expect(outcomes.sort()).toEqual([409, undefined])
    const left = await kept()
    expect(left.length === 0 || left[0]?.role === 'admin').toBe(true)
    expect(made.role).toBe('member')
    await other.close()
  })
})
