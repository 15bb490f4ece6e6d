import { expect, test } from 'bun:test'
import { GatewayError } from '../../../../src/core/errors.ts'
import { buildApprovalRequest, readApprovals } from '../../../../src/core/tools/mcp/approval.ts'

const request = buildApprovalRequest('mcpr_1', { server_label: 'own', name: 'add' }, { a: 1 })
const answer = (fields: object = {}) => ({
  ...{ type: 'mcp_approval_response', approval_request_id: 'mcpr_1', approve: true },
  ...fields,
})

test('a request is the item of the reference', () => {
  expect(request).toEqual({
    ...{ type: 'mcp_approval_request', id: 'mcpr_1', server_label: 'own', name: 'add' },
    arguments: '{"a":1}',
  })
})

test('answers are read with what they are about, each once', () => {
  const decision = { id: 'mcpr_1', server_label: 'own', name: 'add', input: { a: 1 } }
  expect(readApprovals([{ role: 'user' }, 'text', request, answer()], 'input')).toEqual([
    { ...decision, isApproved: true, reason: null },
  ])
  const refused = answer({ approve: false, reason: 'Not now' })
  expect(readApprovals([request, refused, refused], 'input')).toEqual([
    { ...decision, isApproved: false, reason: 'Not now' },
  ])
  expect(readApprovals([request], 'input')).toEqual([])
})

test.each<[string, unknown[], string]>([
  ['without its request', [answer()], 'input.0.approval_request_id'],
  [
    'of another request',
    [request, answer({ approval_request_id: 'x' })],
    'input.1.approval_request_id',
  ],
  ['that says neither', [request, answer({ approve: 'yes' })], 'input.1.approve'],
  ['that contradicts another', [request, answer(), answer({ approve: false })], 'input.2'],
  ['to no arguments', [{ ...request, arguments: '[1' }, answer()], 'input.1'],
])('an answer %s is a 400 that names it', (_, items, field) => {
  try {
    readApprovals(items, 'input')
    expect.unreachable('Nothing was thrown')
  } catch (thrown) {
    expect(thrown).toBeInstanceOf(GatewayError)
    expect((thrown as GatewayError).metadata.field).toBe(field)
  }
})
