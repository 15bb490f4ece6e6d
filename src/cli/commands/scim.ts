import { Command } from 'commander'
import { type CommonOptions, common, inputOf, paged, workspaceId } from '../options.ts'
import { output, print, printFields, printTable } from '../output.ts'
import { withGateway } from '../with-gateway.ts'

interface TokenOptions extends CommonOptions {
  name: string
}

interface PageOptions extends CommonOptions {
  offset?: number
  limit?: number
}

interface MappingOptions extends CommonOptions {
  group: string
  workspace: string
  role: string
}

interface RoleOptions extends CommonOptions {
  role: string
}

interface DeleteOptions extends CommonOptions {
  keepMembers?: boolean
  removeMembers?: boolean
}

/** `gateway scim`: what an identity provider signs in with, its groups, and which workspaces they are put into. */
export const scimCommand = () =>
  new Command('scim')
    .description('an identity provider: its tokens, its groups, and the workspaces that they are put into')
    .addCommand(tokenCommand())
    .addCommand(new Command('groups').description('the identity provider’s groups').addCommand(groupsListCommand()))
    .addCommand(mappingsCommand())
    .addCommand(common(new Command('sync').description('apply every mapping again')).action(sync))

const tokenCommand = () =>
  new Command('token')
    .description('what an identity provider signs in with; several may be good at a time')
    .addCommand(
      common(new Command('create').description('create a token and print it once'))
        .requiredOption('--name <name>', 'what it is called')
        .action(createToken),
    )
    .addCommand(common(new Command('list').description('list the tokens, never their secrets')).action(listTokens))
    .addCommand(common(new Command('revoke').description('revoke a token').argument('<id>')).action(revokeToken))

const groupsListCommand = () => paged(common(new Command('list').description('list the groups'))).action(listGroups)

const mappingsCommand = () =>
  new Command('mappings')
    .description('which group is in which workspace, and in which role')
    .addCommand(
      common(new Command('create').description('put a group into a workspace'))
        .requiredOption('--group <id>', 'the group')
        .requiredOption('--workspace <id>', 'the workspace, by id or slug')
        .requiredOption('--role <role>', 'admin or member')
        .action(createMapping),
    )
    .addCommand(paged(common(new Command('list').description('list the mappings'))).action(listMappings))
    .addCommand(common(new Command('get').description('show a mapping').argument('<id>')).action(getMapping))
    .addCommand(
      common(new Command('update').description('give a group another role').argument('<id>'))
        .requiredOption('--role <role>', 'admin or member')
        .action(updateMapping),
    )
    .addCommand(
      common(new Command('delete').description('delete a mapping; what becomes of its members has to be said').argument('<id>'))
        .option('--keep-members', 'they stay in the workspace, as if put there by hand')
        .option('--remove-members', 'they leave it, unless another mapping puts them there')
        .action(deleteMapping),
    )

async function createToken(options: TokenOptions): Promise<void> {
  const { createScimToken, NewScimToken } = await import('../../core/identity/scim/tokens.ts')
  const input = inputOf(NewScimToken, { name: options.name })
  await withGateway(options, async (gateway, actor) =>
    output(options.json, await createScimToken(gateway, actor, input), ({ token, data }) => {
      print(token)
      print(`This token is shown once. Its id is ${data.id}`)
    }),
  )
}

async function listTokens(options: CommonOptions): Promise<void> {
  const { listScimTokens } = await import('../../core/identity/scim/tokens.ts')
  await withGateway(options, async (gateway, actor) =>
    output(options.json, await listScimTokens(gateway, actor), ({ data }) =>
      printTable(
        ['NAME', 'LABEL', 'CREATED', 'ID'],
        data.map(token => [token.name, token.label, token.created_at, token.id]),
      ),
    ),
  )
}

async function revokeToken(id: string, options: CommonOptions): Promise<void> {
  const { revokeScimToken } = await import('../../core/identity/scim/tokens.ts')
  await withGateway(options, async (gateway, actor) =>
    output(options.json, await revokeScimToken(gateway, actor, id), () => print(`Revoked ${id}`)),
  )
}

async function listGroups({ offset, limit, ...options }: PageOptions): Promise<void> {
  const { listScimGroups } = await import('../../core/identity/scim/groups.ts')
  const { ScimPage } = await import('../../core/identity/scim.ts')
  const page = inputOf(ScimPage, { offset, limit })
  await withGateway(options, async (gateway, actor) =>
    output(options.json, await listScimGroups(gateway, actor, page), ({ data }) =>
      printTable(
        ['NAME', 'EXTERNAL ID', 'ID'],
        data.map(group => [group.display_name, group.external_id, group.id]),
      ),
    ),
  )
}

async function createMapping({ group, workspace, role, ...options }: MappingOptions): Promise<void> {
  const { createGroupMapping, NewGroupMapping } = await import('../../core/identity/scim/group-mappings.ts')
  await withGateway(options, async (gateway, actor) => {
    const input = inputOf(NewGroupMapping, { scim_group_id: group, workspace_id: await workspaceId(gateway, workspace), role })
    output(options.json, await createGroupMapping(gateway, actor, input), ({ data }) => printFields(data))
  })
}

async function listMappings({ offset, limit, ...options }: PageOptions): Promise<void> {
  const { listGroupMappings } = await import('../../core/identity/scim/group-mappings.ts')
  const { ScimPage } = await import('../../core/identity/scim.ts')
  const page = inputOf(ScimPage, { offset, limit })
  await withGateway(options, async (gateway, actor) =>
    output(options.json, await listGroupMappings(gateway, actor, page), ({ data }) =>
      printTable(
        ['GROUP', 'WORKSPACE', 'ROLE', 'ID'],
        data.map(mapping => [mapping.scim_group_id, mapping.workspace_id, mapping.role, mapping.id]),
      ),
    ),
  )
}

async function getMapping(id: string, options: CommonOptions): Promise<void> {
  const { getGroupMapping } = await import('../../core/identity/scim/group-mappings.ts')
  await withGateway(options, async (gateway, actor) =>
    output(options.json, await getGroupMapping(gateway, actor, id), ({ data }) => printFields(data)),
  )
}

async function updateMapping(id: string, { role, ...options }: RoleOptions): Promise<void> {
  const { GroupMappingChange, updateGroupMapping } = await import('../../core/identity/scim/group-mappings.ts')
  const change = inputOf(GroupMappingChange, { role })
  await withGateway(options, async (gateway, actor) =>
    output(options.json, await updateGroupMapping(gateway, actor, id, change), ({ data }) => printFields(data)),
  )
}

async function deleteMapping(id: string, { keepMembers, removeMembers, ...options }: DeleteOptions): Promise<void> {
  const { deleteGroupMapping, GroupMappingDeletion } = await import('../../core/identity/scim/group-mappings.ts')
  const { invalid } = await import('../../core/errors.ts')
  if (keepMembers === removeMembers) throw invalid('expected --keep-members or --remove-members')
  const deletion = inputOf(GroupMappingDeletion, { keep_members: keepMembers ? 'true' : 'false' })
  await withGateway(options, async (gateway, actor) =>
    output(options.json, await deleteGroupMapping(gateway, actor, id, deletion), () => print(`Deleted ${id}`)),
  )
}

async function sync(options: CommonOptions): Promise<void> {
  const { finishSyncJob } = await import('../../core/identity/scim/sync-jobs.ts')
  await withGateway(options, async (gateway, actor) => {
    const finished = await finishSyncJob(gateway, actor)
    output(options.json, finished, ({ data }) => printFields({ ...data }))
    if (finished.data.status === 'failed') process.exitCode = 1
  })
}
