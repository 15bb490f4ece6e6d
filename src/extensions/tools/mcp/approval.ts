import { invalid } from '../../../base/errors.ts'
import { type Json, parseObject, readString } from '../../../base/json.ts'
import type { ExtensionWorld } from '../../world.ts'
import type { McpServer } from './server.ts'

/** An item of the input, and where it stands: `input.3`. */
export interface PlacedItem {
  value: Json
  field: string
}

/** An answer of the client to a request for its approval. */
export interface ApprovalDecision {
  /** The id of the request. */
  id: string
  server_label: string
  /** The tool's own name. */
  name: string
  input: Json
  isApproved: boolean
  /** Why not, in the client's words; null if it says nothing. */
  reason: string | null
  /** Where the answer stands. */
  field: string
}

/** A use of a tool, as a client approves it. */
export interface ApprovalSubject {
  workspace_id: string
  server: Pick<McpServer, 'label' | 'url'>
  /** The tool's own name. */
  name: string
  input: Json
}

/**
 * Builds the item that asks the client for its approval (wire reference D.4). Its id is bound to
 * the workspace, the server with its address, the tool and the arguments.
 */
export const buildApprovalRequest = (
  { traffic }: Pick<ExtensionWorld, 'traffic'>,
  subject: ApprovalSubject,
): Json => ({
  ...{
    type: 'mcp_approval_request',
    id: traffic.approvals.issue(subject.workspace_id, renderSubject(subject)),
  },
  ...{ server_label: subject.server.label, name: subject.name },
  arguments: JSON.stringify(subject.input),
})

/**
 * Checks that the client was asked for this approval and has not used it. Throws 400 for one of
 * anything else.
 */
export function checkApproval(
  { traffic }: Pick<ExtensionWorld, 'traffic'>,
  { id, field }: ApprovalDecision,
  subject: ApprovalSubject,
): void {
  const standing = traffic.approvals.check(id, renderSubject(subject))
  if (standing === 'used') throw approvalUsed(field)
  if (standing === 'unknown')
    throw invalid(
      `${field}.approval_request_id: expected a request that this gateway made since it started, ` +
        'unchanged, and for this server',
      `${field}.approval_request_id`,
    )
}

/** The client approves the same use again. */
const approvalUsed = (field: string) =>
  invalid(
    `${field}.approval_request_id: expected an approval that was not used yet`,
    `${field}.approval_request_id`,
  )

const renderSubject = ({ workspace_id, server, name, input }: ApprovalSubject): string =>
  JSON.stringify([workspace_id, server.label, server.url, name, input])

/**
 * Reads the client's decisions from the items of its input: each `mcp_approval_response` with the
 * `mcp_approval_request` before it that it names, by the request's id. Throws 400 for a response
 * without its request, for two that contradict each other, and for arguments that are no JSON
 * object.
 */
export function readApprovals(items: PlacedItem[]): Map<string, ApprovalDecision> {
  const requests = new Map<unknown, Json>()
  const decisions = new Map<string, ApprovalDecision>()
  for (const { value, field } of items) {
    if (value.type === 'mcp_approval_request') requests.set(value.id, value)
    if (value.type !== 'mcp_approval_response') continue
    const decision = readDecision(value, requests.get(value.approval_request_id), field)
    const earlier = decisions.get(decision.id)
    if (earlier && earlier.isApproved !== decision.isApproved)
      throw invalid(`${field}.approve: expected one answer to ${decision.id}`, field)
    decisions.set(decision.id, decision)
  }
  return decisions
}

function readDecision(response: Json, request: Json | undefined, field: string): ApprovalDecision {
  const [id, label, name] = [request?.id, request?.server_label, request?.name].map(readString)
  if (id == null || label == null || name == null)
    throw invalid(
      `${field}.approval_request_id: expected the id of an mcp_approval_request before it`,
      `${field}.approval_request_id`,
    )
  if (typeof response.approve !== 'boolean')
    throw invalid(`${field}.approve: expected true or false`, `${field}.approve`)
  const input = parseObject(readString(request?.arguments) || '{}')
  if (!input) throw invalid(`${field}: expected its request’s arguments as a JSON object`, field)
  const reason = readString(response.reason)
  return { id, server_label: label, name, input, isApproved: response.approve, reason, field }
}
