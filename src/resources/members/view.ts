import { defineAudit, identifyById } from '../audit/entry.ts'
import type { Member, WorkspaceMember } from './store.ts'

/** Shows a member in the form of `GET /organization/members`. */
export const showMember = ({ id, email, first_name, last_name, role }: Member) => ({
  id,
  email,
  first_name,
  last_name,
  role,
})

/** Shows a membership in the form of `GET /workspaces/{id}/members`. */
export const showWorkspaceMember = ({
  id,
  workspace_id,
  user_id,
  role,
  created_at,
}: WorkspaceMember) => ({
  id,
  workspace_id,
  user_id,
  role,
  created_at,
})

/** Creates the audit entry of a change of a member. */
export const auditMember = defineAudit<Member>('members', { identify: identifyById })

/** Creates the audit entry of a change of a workspace's members. */
export const auditWorkspaceMember = defineAudit<WorkspaceMember>('workspace_members', {
  identify: ({ user_id, workspace_id }) => ({ id: user_id, workspace_id }),
  verbs: { create: 'add', delete: 'remove' },
})
