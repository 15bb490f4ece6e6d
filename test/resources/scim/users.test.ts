import { afterEach, beforeEach, describe, expect, test } from 'bun:test'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type Gateway, openGateway } from '../../../src/app/gateway.ts'
import { GatewayError } from '../../../src/base/errors.ts'
import { type Actor, getOperator } from '../../../src/resources/actor.ts'
import { createKey } from '../../../src/resources/keys.ts'
import { createScimGroup, patchScimGroup } from '../../../src/resources/scim/groups.ts'
import { createGroupMapping } from '../../../src/resources/scim/operations.ts'
import { createScimUser, patchScimUser } from '../../../src/resources/scim/users.ts'
import { GROUP_ID, PATCH_OP, USER_ID } from '../../support/scim.ts'

const ALWAYS = { ifMatch: null }

let data: string
let one: Gateway
let other: Gateway
let actor: Actor

beforeEach(async () => {
  data = mkdtempSync(join(tmpdir(), 'gateway-test-'))
  one = await openGateway({ data })
  other = await openGateway({ data })
  actor = getOperator(one)
})

afterEach(async () => {
  await one.close()
  await other.close()
  rmSync(data, { recursive: true, force: true })
})

const newUser = (gateway: Gateway, userName: string, more: object = {}) =>
  createScimUser(gateway, actor, { schemas: [USER_ID], userName, ...more })

const patch = (...Operations: object[]) => ({ schemas: [PATCH_OP], Operations })

const refusalOf = (promise: Promise<unknown>) =>
  promise.then(
    () => undefined,
    thrown => {
      const { status, metadata } = GatewayError.from(thrown)
      return `${status} ${metadata.scimType}`
    },
  )

describe('two processes on one data directory', () => {
  test('deactivation in one process disables keys created in the other, even at once', async () => {
    const user = await newUser(one, 'ada@acme.example')
    const make = () => createKey(other, actor, { name: 'his', creator_user_id: user.user_id })
    const known = await make()
    // This process has read older data than the key it must disable. It reads again, once.
    const { catchUp } = one
    let late = ''
    one.catchUp = async () => {
      const changed = await catchUp()
      if (late === '') late = (await make()).data.hash
      return changed
    }
    await patchScimUser(
      one,
      actor,
      user.id,
      patch({ op: 'replace', path: 'active', value: false }),
      ALWAYS,
    )
    await other.catchUp()
    for (const gateway of [one, other])
      for (const hash of [known.data.hash, late])
        expect(gateway.memory.keys.get(hash)).toMatchObject({ disabled: true })
  })

  test('users added to a group by both processes are all in it, and in the workspace', async () => {
    const group = (await createScimGroup(one, actor, { schemas: [GROUP_ID], displayName: 'E' })).id
    const { workspace_id } = one.memory.owner
    await createGroupMapping(other, actor, { scim_group_id: group, workspace_id, role: 'member' })
    const add = async (gateway: Gateway, i: number) => {
      const { id } = await newUser(gateway, `user-${i}@acme.example`)
      return patchScimGroup(
        gateway,
        actor,
        group,
        patch({ op: 'add', path: 'members', value: [{ value: id }] }),
        ALWAYS,
      )
    }
    await Promise.all(Array.from({ length: 20 }, (_, i) => add(i % 2 === 0 ? one : other, i)))
    expect(await one.store.scim.groups.listMembers([group])).toHaveLength(20)
    expect(await other.store.scim.groups.byId(group)).toMatchObject({ version: 21 })
    expect(await one.store.members.listInWorkspace(workspace_id)).toHaveLength(20)
  })

  test('of two users created at once with the same name, only one exists', async () => {
    const both = [one, other].map(gateway => refusalOf(newUser(gateway, 'Ada@acme.example')))
    expect((await Promise.all(both)).sort()).toEqual(['409 uniqueness', undefined] as never)
    expect([await one.store.members.count(), (await one.store.scim.users.find()).length]).toEqual([
      2, 1,
    ])
  })
})

describe('a member', () => {
  test('has the primary address, else the first, else the user name', async () => {
    let names = 0
    const addressOf = async (more: object) => {
      const { user_id } = await newUser(one, `u${++names}`, more)
      return (await one.store.members.byIds([user_id]))[0]?.email
    }
    expect(await addressOf({ emails: [{ value: 'a@x' }, { value: 'b@x', primary: true }] })).toBe(
      'b@x',
    )
    expect(await addressOf({ emails: [{ type: 'work' }, { value: 'c@x' }] })).toBe('c@x')
    expect(await addressOf({})).toBe('u3')
  })

  test('keeps their name if replaced without one, and otherwise gets the new one', async () => {
    const { id, user_id } = await newUser(one, 'ada', {
      name: { givenName: 'Ada', familyName: 'L'.repeat(300) },
    })
    await patchScimUser(one, actor, id, patch({ op: 'remove', path: 'name' }), ALWAYS)
    expect(await one.store.members.byIds([user_id])).toMatchObject([
      { first_name: 'Ada', last_name: 'L'.repeat(255) },
    ])
    await patchScimUser(
      one,
      actor,
      id,
      patch({ op: 'add', path: 'name.givenName', value: 'A' }),
      ALWAYS,
    )
    expect(await one.store.members.byIds([user_id])).toMatchObject([{ first_name: 'A' }])
  })

  test('who has left frees their address, and cannot return to one that is taken', async () => {
    const first = await newUser(one, 'first', { emails: [{ value: 'ada@x' }] })
    await patchScimUser(
      one,
      actor,
      first.id,
      patch({ op: 'replace', path: 'active', value: false }),
      ALWAYS,
    )
    await newUser(one, 'second', { emails: [{ value: 'ADA@x' }] })
    expect(await one.store.members.count()).toBe(2)
    expect(
      await refusalOf(
        patchScimUser(
          one,
          actor,
          first.id,
          patch({ op: 'replace', path: 'active', value: true }),
          ALWAYS,
        ),
      ),
    ).toBe('409 uniqueness')
  })
})
