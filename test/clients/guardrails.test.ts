import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { OpenRouter } from '@openrouter/sdk'
import {
  BadRequestResponseError,
  ForbiddenResponseError,
  NotFoundResponseError,
  UnauthorizedResponseError,
} from '@openrouter/sdk/models/errors'
import { openStage, type Stage } from '../support/stage.ts'
import { hasWirecheck } from '../support/wirecheck.ts'

const NOBODY = '019aa000-0000-7000-8000-0000000000ff'

let stage: Stage
let management: OpenRouter

beforeAll(async () => {
  stage = await openStage()
  management = clientWith(stage.server.management_key)
})
afterAll(() => stage.close())

const clientWith = (apiKey: string) =>
  new OpenRouter({ apiKey, serverURL: stage.base, retryConfig: { strategy: 'none' } })

/** Returns the error of a call that must fail. */
const failureOf = (call: PromiseLike<unknown>): Promise<unknown> =>
  Promise.resolve(call).then(
    () => undefined,
    thrown => thrown,
  )

const create = async (more: object = {}) =>
  (await management.guardrails.create({ createGuardrailRequest: { name: 'rules', ...more } })).data

describe('guardrails', () => {
  test('are created, read, updated, listed and deleted', async () => {
    const made = await create({
      description: 'Everything',
      allowedDataRegions: ['global', 'europe'],
      allowedModels: ['acme/small', 'anthropic/claude-opus-4-5'],
      allowedProviders: ['openai', 'google-vertex'],
      ignoredModels: ['openai/gpt-4o'],
      ignoredProviders: ['azure'],
      contentFilterBuiltins: [{ slug: 'email', action: 'redact' }],
      contentFilters: [{ pattern: 'SECRET-\\d+', action: 'block', label: 'secret' }],
      enforceZdr: true,
      enforceZdrGoogle: false,
      enablePaidModelTraining: false,
      limitUsd: 50,
      resetInterval: 'monthly',
    })
    expect(made).toMatchObject({
      name: 'rules',
      allowedModels: ['acme/small', 'anthropic/claude-opus-4.5'],
      contentFilterBuiltins: [{ slug: 'email', action: 'redact', label: '[EMAIL]' }],
      enforceZdrAnthropic: true,
      enforceZdrGoogle: false,
      limitUsd: 50,
      includeByokInBudgets: false,
      updatedAt: null,
    })
    expect((await management.guardrails.get({ id: made.id })).data).toEqual(made)
    const updateGuardrailRequest = {
      limitUsd: null,
      resetInterval: null,
      allowedModels: null,
      contentFilterBuiltins: null,
    }
    const { data } = await management.guardrails.update({ id: made.id, updateGuardrailRequest })
    expect(data).toEqual({ ...made, ...updateGuardrailRequest, updatedAt: expect.any(String) })
    await create({ filterOutput: true })
    const pages = await Array.fromAsync(await management.guardrails.list({ limit: 1 }))
    const listed = pages.flatMap(page => page.result.data)
    expect([listed.length, listed[0]]).toEqual([2, data])
    for (const { id } of listed)
      expect(await management.guardrails.delete({ id })).toEqual({ deleted: true })
    expect(await failureOf(management.guardrails.get({ id: made.id }))).toBeInstanceOf(
      NotFoundResponseError,
    )
    expect(await failureOf(management.guardrails.delete({ id: made.id }))).toBeInstanceOf(
      NotFoundResponseError,
    )
    expect(
      await failureOf(management.guardrails.update({ id: made.id, updateGuardrailRequest })),
    ).toBeInstanceOf(NotFoundResponseError)
  })

  test('are assigned to keys and members, and unassigned', async () => {
    const { id } = await create()
    const { data: key } = await management.apiKeys.create({ requestBody: { name: 'held' } })
    const keys = { id, bulkAssignKeysRequest: { keyHashes: [key.hash] } }
    expect(await management.guardrails.bulkAssignKeys(keys)).toEqual({ assignedCount: 1 })
    const expected = [
      {
        guardrailId: id,
        keyHash: key.hash,
        keyName: 'held',
        keyLabel: key.label,
        assignedBy: key.creatorUserId,
      },
    ]
    const own = await Array.fromAsync(
      await management.guardrails.listGuardrailKeyAssignments({ id }),
    )
    expect(own.flatMap(page => page.result.data)).toMatchObject(expected)
    const all = await Array.fromAsync(await management.guardrails.listKeyAssignments({ limit: 1 }))
    expect(all.flatMap(page => page.result.data)).toMatchObject(expected)
    const taken = await management.guardrails.bulkUnassignKeys({
      id,
      bulkUnassignKeysRequest: { keyHashes: [key.hash] },
    })
    expect(taken).toEqual({ unassignedCount: 1 })

    const memberUserIds = [key.creatorUserId ?? '']
    expect(
      await management.guardrails.bulkAssignMembers({
        id,
        bulkAssignMembersRequest: { memberUserIds },
      }),
    ).toEqual({ assignedCount: 1 })
    for (const list of [
      () => management.guardrails.listGuardrailMemberAssignments({ id }),
      () => management.guardrails.listMemberAssignments({}),
    ]) {
      const pages = await Array.fromAsync(await list())
      expect(pages.flatMap(page => page.result.data)).toMatchObject([
        { guardrailId: id, userId: memberUserIds[0] },
      ])
    }
    const gone = await management.guardrails.bulkUnassignMembers({
      id,
      bulkUnassignMembersRequest: { memberUserIds },
    })
    expect(gone).toEqual({ unassignedCount: 1 })
  })

  test('are refused with typed errors', async () => {
    const { guardrails } = management
    const { id } = await create()
    const BAD = [
      () => create({ limitUsd: 5 }),
      () => create({ ignoredModels: ['nobody/none'] }),
      () => create({ contentFilters: [{ pattern: '(?=a)', action: 'block' }] }),
      () => guardrails.update({ id, updateGuardrailRequest: { ignoredProviders: ['nobody'] } }),
      () => guardrails.list({ workspaceId: NOBODY }),
      () => guardrails.bulkAssignKeys({ id, bulkAssignKeysRequest: { keyHashes: ['nobody'] } }),
      () =>
        guardrails.bulkAssignMembers({
          id,
          bulkAssignMembersRequest: { memberUserIds: ['nobody'] },
        }),
    ]
    for (const call of BAD) expect(await failureOf(call())).toBeInstanceOf(BadRequestResponseError)
    const GONE = [
      () => guardrails.bulkAssignKeys({ id: NOBODY, bulkAssignKeysRequest: { keyHashes: ['a'] } }),
      () =>
        guardrails.bulkUnassignKeys({ id: NOBODY, bulkUnassignKeysRequest: { keyHashes: ['a'] } }),
      () =>
        guardrails.bulkAssignMembers({
          id: NOBODY,
          bulkAssignMembersRequest: { memberUserIds: ['a'] },
        }),
      () =>
        guardrails.bulkUnassignMembers({
          id: NOBODY,
          bulkUnassignMembersRequest: { memberUserIds: ['a'] },
        }),
      () => guardrails.listGuardrailKeyAssignments({ id: NOBODY }),
      () => guardrails.listGuardrailMemberAssignments({ id: NOBODY }),
    ]
    for (const call of GONE) expect(await failureOf(call())).toBeInstanceOf(NotFoundResponseError)
    const stranger = clientWith('gw-v1-nobody').guardrails
    const STRANGE = [
      () => stranger.list({}),
      () => stranger.get({ id }),
      () => stranger.listKeyAssignments({}),
      () => stranger.listMemberAssignments({}),
    ]
    for (const call of STRANGE)
      expect(await failureOf(call())).toBeInstanceOf(UnauthorizedResponseError)
    const inference = clientWith(stage.server.inference_key).guardrails
    expect(
      await failureOf(inference.create({ createGuardrailRequest: { name: 'x' } })),
    ).toBeInstanceOf(ForbiddenResponseError)
    expect(await failureOf(inference.update({ id, updateGuardrailRequest: {} }))).toBeInstanceOf(
      ForbiddenResponseError,
    )
    expect(
      await failureOf(
        inference.bulkAssignKeys({ id, bulkAssignKeysRequest: { keyHashes: ['a'] } }),
      ),
    ).toBeInstanceOf(ForbiddenResponseError)
  })
})

test.skipIf(!hasWirecheck)(
  'every answer matched the public schema (skipped if the checker is not installed)',
  async () => {
    const { seen, violations } = await stage.report()
    expect(violations).toEqual([])
    expect(Object.keys(seen)).toEqual(
      expect.arrayContaining([
        ...[200, 400, 401].map(status => `listGuardrails ${status}`),
        ...[201, 400, 403].map(status => `createGuardrail ${status}`),
        ...[200, 401, 404].map(status => `getGuardrail ${status}`),
        ...[200, 400, 403, 404].map(status => `updateGuardrail ${status}`),
        ...[200, 404].map(status => `deleteGuardrail ${status}`),
        ...[200, 400, 403, 404].map(status => `bulkAssignKeysToGuardrail ${status}`),
        ...[200, 400, 404].map(status => `bulkAssignMembersToGuardrail ${status}`),
        ...['bulkUnassignKeysFromGuardrail', 'bulkUnassignMembersFromGuardrail'].flatMap(id => [
          `${id} 200`,
          `${id} 404`,
        ]),
        ...['listGuardrailKeyAssignments', 'listGuardrailMemberAssignments'].flatMap(id => [
          `${id} 200`,
          `${id} 404`,
        ]),
        ...['listKeyAssignments', 'listMemberAssignments'].flatMap(id => [
          `${id} 200`,
          `${id} 401`,
        ]),
      ]),
    )
  },
)
