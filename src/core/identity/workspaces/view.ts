import { defineAudit } from '../audit/entry.ts'
import { getDefaultGuardrailId } from '../default-guardrail.ts'
import type { Workspace } from './store.ts'

/** Shows a workspace in its wire form. */
export const showWorkspace = ({ is_default: _, ...workspace }: Workspace) => ({
  ...workspace,
  default_guardrail_id: getDefaultGuardrailId(workspace.id),
})

/** Creates the audit entry of a change of a workspace. */
export const auditWorkspace = defineAudit<Workspace>('workspaces', {
  identify: ({ id }) => ({ id, workspace_id: id }),
})
