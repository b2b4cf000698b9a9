# SPDX-License-Identifier: Apache-2.0
"""lsp - a stock language server: VS Code's for JSON, and all that it needs"""
import os
import pathlib

MODULES = pathlib.Path(os.environ.get("CAY_NPM", "/opt/npm/node_modules"))
OF_JSON = ("vscode-langservers-extracted", "vscode-json-languageservice", "vscode-jsonrpc", "vscode-languageserver", "vscode-languageserver-protocol",
           "vscode-languageserver-textdocument", "vscode-languageserver-types", "vscode-uri", "jsonc-parser", "request-light", "@vscode/l10n", "core-js/modules", "core-js/internals", "regenerator-runtime")
