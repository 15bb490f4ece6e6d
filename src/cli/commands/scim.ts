import { Option } from 'commander'
import { invalid } from '../../core/errors.ts'
import { demand, type Fields, fill, fillWorkspace, PAGE } from '../fields.ts'
import { defineNoun, defineVerbs, printDeleted, take } from '../noun.ts'
import { print } from '../output.ts'

const tokenVerb = defineVerbs(() => import('../../core/identity/scim/tokens.ts'))
const groupVerb = defineVerbs(async () => ({
  ...(await import('../../core/identity/scim/groups.ts')),
  ...(await import('../../core/identity/scim.ts')),
}))
const mappingVerb = defineVerbs(async () => ({
  ...(await import('../../core/identity/scim/group-mappings.ts')),
  ...(await import('../../core/identity/scim.ts')),
}))
const jobVerb = defineVerbs(() => import('../../core/identity/scim/sync-jobs.ts'))

const NEW_TOKEN = [demand(fill('name', '--name <name>', 'what it is called'))]
const ROLE = demand(fill('role', '--role <role>', 'admin or member'))
const NEW_MAPPING = [
  demand(fill('scim_group_id', '--group <id>', 'the group')),
  demand(fillWorkspace('the workspace, by id or slug')),
  ROLE,
]
const DELETION: Fields = {
  options: [
    new Option('--keep-members', 'they stay in the workspace, as if put there by hand'),
    new Option('--remove-members', 'they leave it, unless another mapping puts them there'),
  ],
  read: ({ keepMembers, removeMembers }: { keepMembers?: boolean; removeMembers?: boolean }) => {
    if (keepMembers === removeMembers) throw invalid('expected --keep-members or --remove-members')
    return { keep_members: keepMembers ? 'true' : 'false' }
  },
}

/**
 * `gateway scim`: what an identity provider signs in with, its groups, and which workspaces they
 * are put into.
 */
export const scimCommand = () =>
  defineNoun(
    'scim',
    'an identity provider: its tokens, its groups, and the workspaces that they are put into',
    [tokens(), groups(), mappings(), sync()],
  )

const tokens = () =>
  defineNoun('token', 'what an identity provider signs in with; several may be good at a time', [
    tokenVerb('create', 'create a token and print it once', NEW_TOKEN, of =>
      take(of.NewScimToken, of.createScimToken),
    ).prints(({ token, data }) => {
      print(token)
      print(`This token is shown once. Its id is ${data.id}`)
    }),
    tokenVerb('list', 'list the tokens, never their secrets', [], of => of.listScimTokens).prints({
      NAME: token => token.name,
      LABEL: token => token.label,
      CREATED: token => token.created_at,
      ID: token => token.id,
    }),
    tokenVerb('revoke <id>', 'revoke a token', [], of => of.revokeScimToken).prints(
      (_, { args: [id] }) => print(`Revoked ${id}`),
    ),
  ])

const groups = () =>
  defineNoun('groups', 'the identity provider’s groups', [
    groupVerb('list', 'list the groups', PAGE, of => take(of.ScimPage, of.listScimGroups)).prints({
      NAME: group => group.display_name,
      'EXTERNAL ID': group => group.external_id,
      ID: group => group.id,
    }),
  ])

const mappings = () =>
  defineNoun('mappings', 'which group is in which workspace, and in which role', [
    mappingVerb('create', 'put a group into a workspace', NEW_MAPPING, of =>
      take(of.NewGroupMapping, of.createGroupMapping),
    ),
    mappingVerb('list', 'list the mappings', PAGE, of =>
      take(of.ScimPage, of.listGroupMappings),
    ).prints({
      GROUP: mapping => mapping.scim_group_id,
      WORKSPACE: mapping => mapping.workspace_id,
      ROLE: mapping => mapping.role,
      ID: mapping => mapping.id,
    }),
    mappingVerb('get <id>', 'show a mapping', [], of => of.getGroupMapping),
    mappingVerb('update <id>', 'give a group another role', [ROLE], of =>
      take(of.GroupMappingChange, of.updateGroupMapping),
    ),
    mappingVerb(
      'delete <id>',
      'delete a mapping; what becomes of its members has to be said',
      [DELETION],
      of => take(of.GroupMappingDeletion, of.deleteGroupMapping),
    ).prints(printDeleted),
  ])

const sync = () =>
  jobVerb('sync', 'apply every mapping again', [], of => async (gateway, actor) => {
    const finished = await of.finishSyncJob(gateway, actor)
    if (finished.data.status === 'failed') process.exitCode = 1
    return finished
  })
