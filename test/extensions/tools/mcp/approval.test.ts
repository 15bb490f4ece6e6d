import { describe, expect, test } from 'bun:test'
import { GatewayError } from '../../../../src/base/errors.ts'
import type { Json } from '../../../../src/base/json.ts'
import { Approvals } from '../../../../src/engine/traffic/approvals.ts'
import type { Traffic } from '../../../../src/engine/traffic.ts'
import {
  type ApprovalSubject,
  buildApprovalRequest,
  checkApproval,
  readApprovals,
} from '../../../../src/extensions/tools/mcp/approval.ts'

const openWorld = () => ({ traffic: { approvals: new Approvals() } as Traffic })
const world = openWorld()
const SUBJECT: ApprovalSubject = {
  workspace_id: 'w',
  server: { label: 'own', url: 'https://mcp.example/a' },
  name: 'add',
  input: { a: 1 },
}
const request = buildApprovalRequest(world, SUBJECT)
const id = String(request.id)
const answer = (fields: object = {}): Json => ({
  ...{ type: 'mcp_approval_response', approval_request_id: id, approve: true },
  ...fields,
})
const place = (...items: Json[]) => items.map((value, i) => ({ value, field: `input.${i}` }))
const read = (...items: Json[]) => [...readApprovals(place(...items)).values()]

function findField(work: () => unknown): unknown {
  try {
    work()
  } catch (thrown) {
    expect(thrown).toBeInstanceOf(GatewayError)
    return (thrown as GatewayError).metadata.field
  }
  return null
}

test('a request is the item of the reference', () => {
  expect(request).toEqual({
    ...{ type: 'mcp_approval_request', id, server_label: 'own', name: 'add' },
    arguments: '{"a":1}',
  })
  expect(id).toMatch(/^mcpr_[0-9a-z]+_[0-9a-z]+_[0-9a-f]{32}$/)
})

test('answers are read with what they are about, each once', () => {
  const decision = { id, server_label: 'own', name: 'add', input: { a: 1 } }
  expect(read({ role: 'user' }, request, answer())).toEqual([
    { ...decision, isApproved: true, reason: null, field: 'input.2' },
  ])
  const refused = answer({ approve: false, reason: 'Not now' })
  expect(read(request, refused, refused)).toMatchObject([
    { ...decision, isApproved: false, reason: 'Not now' },
  ])
  expect(read(request)).toEqual([])
})

test.each<[string, Json[], string]>([
  ['without its request', [answer()], 'input.0.approval_request_id'],
  ['before its request', [answer(), request], 'input.0.approval_request_id'],
  [
    'of another request',
    [request, answer({ approval_request_id: 'x' })],
    'input.1.approval_request_id',
  ],
  ['that says neither', [request, answer({ approve: 'yes' })], 'input.1.approve'],
  ['that contradicts another', [request, answer(), answer({ approve: false })], 'input.2'],
  ['to no arguments', [{ ...request, arguments: '[1' }, answer()], 'input.1'],
])('an answer %s is a 400 that names it', (_, items, field) => {
  expect(findField(() => read(...items))).toBe(field)
})

describe('an approval', () => {
  const check = (given: Json, subject: Partial<ApprovalSubject> = {}, at = world) =>
    findField(() => {
      for (const decision of read(given, answer({ approval_request_id: given.id })))
        checkApproval(at, decision, { ...SUBJECT, ...subject, input: decision.input })
    })
  const FIELD = 'input.1.approval_request_id'

  test('holds for what was asked', () => {
    expect(check(request)).toBeNull()
    expect(check({ ...request, arguments: ' { "a" : 1 } ' })).toBeNull()
  })

  test.each<[string, Json, Partial<ApprovalSubject>]>([
    ['other arguments', { ...request, arguments: '{"a":2}' }, {}],
    ['more arguments', { ...request, arguments: '{"a":1,"b":1}' }, {}],
    ['another tool', request, { name: 'delete' }],
    ['another server', request, { server: { label: 'b', url: 'https://mcp.example/a' } }],
    [
      'a server at another address',
      request,
      { server: { label: 'own', url: 'https://evil.example' } },
    ],
    ['another workspace', request, { workspace_id: 'v' }],
    ['an id of a provider', { ...request, id: 'mcpr_682d498e3bd4819196a0ce1664f8e77b' }, {}],
    ['a forged code', { ...request, id: `mcpr_0_1_${'0'.repeat(32)}` }, {}],
    ['the number of another', { ...request, id: id.replace('mcpr_0_1_', 'mcpr_0_2_') }, {}],
    ['an empty id', { ...request, id: '' }, {}],
  ])('is not one for %s', (_, given, subject) => {
    expect(check(given, subject)).toBe(FIELD)
  })

  test('is of the process that asked', () => {
    expect(check(request, {}, openWorld())).toBe(FIELD)
  })

  test('is used once, however many others are used after it', () => {
    const own = openWorld()
    const { approvals } = own.traffic
    const first = buildApprovalRequest(own, SUBJECT)
    const unused = buildApprovalRequest(own, SUBJECT)
    expect(first.id).not.toBe(unused.id)
    const uses = [
      first,
      ...Array.from({ length: 10_001 }, () => buildApprovalRequest(own, SUBJECT)),
    ]
    for (const { id: used } of uses) expect(approvals.use(String(used))).toBe(true)
    for (const { id: used } of uses) expect(approvals.use(String(used))).toBe(false)
    expect([check(first, {}, own), check(uses.at(-1) ?? {}, {}, own)]).toEqual([FIELD, FIELD])
    const next = buildApprovalRequest(own, SUBJECT)
    expect(check(next, {}, own)).toBeNull()
  })

  test('of one workspace is good, however many another uses', () => {
    const own = openWorld()
    const { approvals } = own.traffic
    const asked = buildApprovalRequest(own, SUBJECT)
    for (let i = 0; i < 10_100; i++) {
      const other = buildApprovalRequest(own, { ...SUBJECT, workspace_id: 'v' })
      expect(approvals.use(String(other.id))).toBe(true)
    }
    expect(check(asked, {}, own)).toBeNull()
    expect(approvals.use(String(asked.id))).toBe(true)
    expect(approvals.use(String(asked.id))).toBe(false)
  })

  test('that is no id of ours is never used', () => {
    for (const other of ['', 'x', 'mcpr_', `mcpr_${'z'.repeat(11)}_${'0'.repeat(32)}`])
      expect(new Approvals().use(other)).toBe(false)
  })
})
