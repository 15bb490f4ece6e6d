import { Option } from 'commander'
import { type Fields, fill, PAGE } from '../fields.ts'
import { defineNoun, defineVerbs, take } from '../noun.ts'

const verb = defineVerbs(() => import('../../core/identity/audit.ts'))

const WORKSPACE: Fields = {
  options: [
    new Option(
      '--workspace <id>',
      'the changes in one workspace, by id or slug; by id if it is gone',
    ),
  ],
  find: ({ memory: { workspaces } }, { workspace }) => ({
    workspace_id: [...workspaces.values()].find(({ slug }) => slug === workspace)?.id ?? workspace,
  }),
}
const CHANGES = [
  ...PAGE,
  fill('action', '--action <noun.verb>', 'one kind of change, as keys.create'),
  fill('resource_id', '--resource <id>', 'the changes of one thing, by its id or hash'),
  fill('user_id', '--user <id>', 'what this user did'),
  fill('key_hash', '--key <hash>', 'what was done with this API key'),
  WORKSPACE,
  fill('since', '--since <time>', 'from this moment on, ISO 8601 in UTC with seconds'),
  fill('until', '--until <time>', 'before this moment'),
]

/** `gateway audit`: what was changed, and by whom. */
export const auditCommand = () =>
  defineNoun('audit', 'what was changed, and by whom', [
    verb('list', 'list the changes, the newest first', CHANGES, of =>
      take(of.AuditQuery, of.listAudit),
    ).prints({
      WHEN: change => change.created_at,
      ACTION: change => change.action,
      RESOURCE: change => change.resource_id,
      CHANGED: change => change.changed.join(' '),
      BY: change => change.user_id,
      'WITH KEY': change => change.key_hash ?? change.actor,
    }),
  ])
